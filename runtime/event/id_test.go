package event_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

var idForm = regexp.MustCompile(`^(wrun|step|hook|wait|strm|evnt)_[0-7][0-9A-HJKMNP-TV-Z]{25}$`)

func TestPrefixes_AreThoseOfTheLog(t *testing.T) {
	got := []string{event.PrefixRun, event.PrefixStep, event.PrefixHook, event.PrefixWait, event.PrefixStream, event.PrefixEvent}
	for i, want := range []string{"wrun", "step", "hook", "wait", "strm", "evnt"} {
		if got[i] != want {
			t.Errorf("prefix is %q, want %q", got[i], want)
		}
	}
}

func TestNewRunID_CarriesItsTimeAndSlot(t *testing.T) {
	for _, slot := range []uint16{0, 1, 255, 256, 0x8000, 0xFFFF} {
		id := event.NewRunID(start, slot)
		if !idForm.MatchString(string(id)) || !strings.HasPrefix(string(id), "wrun_") {
			t.Errorf("id %q does not have the form of a run id", id)
		}
		if got := id.Slot(); got != slot {
			t.Errorf("%s has slot %d, want %d", id, got, slot)
		}
		if got := id.Time(); !got.Equal(start) || got.Location() != time.UTC {
			t.Errorf("%s has time %v, want %v", id, got, start)
		}
		if got, err := event.ParseRunID(string(id)); err != nil || got != id {
			t.Errorf("ParseRunID(%q) = %q, %v", id, got, err)
		}
	}
}

func TestEV5_RunIDsSortByCreation(t *testing.T) {
	var ids []event.RunID
	for _, created := range []time.Time{time.Unix(0, 0), time.UnixMilli(1), start, at(time.Millisecond), at(time.Second), at(24 * time.Hour), at(1 << 60)} {
		ids = append(ids, event.NewRunID(created, event.RandomSlot()))
	}
	if !slices.IsSorted(ids) {
		t.Errorf("ids in order of creation do not sort: %q", ids)
	}
}

func TestNewRunID_DiffersAtOneInstant(t *testing.T) {
	seen := map[event.RunID]bool{}
	for range 1000 {
		id := event.NewRunID(start, 7)
		if seen[id] {
			t.Fatalf("id %s was given out twice", id)
		}
		seen[id] = true
	}
}

func TestNewRunID_PanicsOnTimesThatNoIDHolds(t *testing.T) {
	for _, now := range []time.Time{{}, time.UnixMilli(-1), time.Date(10890, 1, 1, 0, 0, 0, 0, time.UTC)} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, now.String()) {
					t.Errorf("NewRunID at %v: panic %q, want one that names the time", now, text)
				}
			}()
			event.NewRunID(now, 0)
		}()
	}
}

func TestParseRunID_RefusesGarbage(t *testing.T) {
	tests := map[string]string{
		"":                                      "start with",
		"order-42":                              "start with",
		"step_01JZ8Q4M5N6P7R8S9TAVBWCXDY":       "start with",
		"WRUN_01JZ8Q4M5N6P7R8S9TAVBWCXDY":       "start with",
		"\twrun_01JZ8Q4M5N6P7R8S9TAVBWCXDY":     "start with",
		"wrun":                                  "start with",
		"wrun_":                                 "characters",
		"wrun_01JZ8Q4M5N6P7R8S9TAVBWCXD":        "characters",
		"wrun_01JZ8Q4M5N6P7R8S9TAVBWCXDYY":      "characters",
		"wrun_01JZ8Q4M5N6P7R8S9TAVBWCXDY\n":     "characters",
		"wrun_01JZ8Q4M5N6P7R8S9TAVBWCXDU":       "ULID",
		"wrun_01JZ8Q4M5N6P7R8S9TAVBWCX\xff\x00": "ULID",
		"wrun_81JZ8Q4M5N6P7R8S9TAVBWCXDY":       "ULID",
		"wrun_01jz8q4m5n6p7r8s9tavbwcxdy":       "upper case",
		"wrun_01JZ8Q4M5N6P7R8S9TAVBWCXDy":       "upper case",
	}
	for s, why := range tests {
		id, err := event.ParseRunID(s)
		if err == nil || id != "" {
			t.Errorf("ParseRunID(%q) = %q, %v; want an error", s, id, err)
			continue
		}
		if !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), fmt.Sprintf("parse run id %q", s)) {
			t.Errorf("ParseRunID(%q): error %q does not say %q", s, err, why)
		}
		if event.RunID(s).Slot() != 0 || !event.RunID(s).Time().IsZero() {
			t.Errorf("RunID(%q) has slot %d and time %v, want none", s, event.RunID(s).Slot(), event.RunID(s).Time())
		}
	}
}

func TestSlotOf_IsStable(t *testing.T) {
	// Stores find existing runs by these slots, so they must never change.
	for id, want := range map[string]uint16{"": 7385, "order-42": 4560, "order-43": 4259, "a": 52512, "ключ": 31781} {
		if got := event.SlotOf(id); got != want {
			t.Errorf("SlotOf(%q) = %d, want %d", id, got, want)
		}
	}
}

func TestSlotOf_SpreadsNeighbors(t *testing.T) {
	const partitions = 16
	var counts [partitions]int
	for i := range 16_000 {
		counts[event.SlotOf(fmt.Sprintf("order-%d", i))%partitions]++
	}
	for p, n := range counts {
		if n < 800 || n > 1200 {
			t.Errorf("partition %d has %d of 16000 workflow ids, want about 1000", p, n)
		}
	}
}

func TestRandomSlot_ReachesEveryPartition(t *testing.T) {
	var seen [16]bool
	for range 10_000 {
		seen[event.RandomSlot()%16] = true
	}
	if seen != [16]bool{true, true, true, true, true, true, true, true, true, true, true, true, true, true, true, true} {
		t.Errorf("10000 random slots reach only %v", seen)
	}
}

func TestDerivedIDs_AreStable(t *testing.T) {
	// Links, exports and idempotency keys contain these IDs, so they must never change.
	e := event.Event{Seq: 9, Type: event.StepCompleted, Time: at(time.Hour), Ref: 7, Since: start}
	got := map[string]string{
		"event":   e.ID(runA),
		"step":    e.Correlation(runA),
		"step 8":  event.EntityID(runA, event.EntityStep, 8, start),
		"run B":   event.EntityID(runB, event.EntityStep, 7, start),
		"wait":    event.EntityID(runA, event.EntityWait, 7, start),
		"hook":    event.EntityID(runA, event.EntityHook, 7, start),
		"no time": event.EntityID(runA, event.EntityHook, 7, time.Time{}),
		"late":    event.EntityID(runA, event.EntityHook, 7, time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)),
	}
	want := map[string]string{
		"event":   "evnt_01KDYE0ZDEG74BWV3TT137D5SB",
		"step":    "step_01KDYAK3SEKMTFXYS80JKHP13T",
		"step 8":  "step_01KDYAK3SEKMTFXYSQ0JKHP13T",
		"run B":   "step_01KDYAK3SEXPM9VV6JGHZXREX6",
		"wait":    "wait_01KDYAK3SEAWESF1X7YQ0TP1KS",
		"hook":    "hook_01KDYAK3SEFPGWZ12PGSRHMG6F",
		"no time": "hook_0000000000FPGWZ12PGSRHMG6F",
		"late":    "hook_7ZZZZZZZZZFPGWZ12PGSRHMG6F",
	}
	for what, id := range got {
		if !idForm.MatchString(id) {
			t.Errorf("%s: %q does not have the form of an id", what, id)
		}
		if id != want[what] {
			t.Errorf("%s: id is %q, want %q", what, id, want[what])
		}
	}
}

func TestDerivedIDs_DifferWithinOneInstant(t *testing.T) {
	seen := map[string]uint64{}
	for n := uint64(1); n <= 200_000; n++ {
		id := event.EntityID(runA, event.EntityStep, n, start)
		if other, ok := seen[id]; ok {
			t.Fatalf("events %d and %d both have id %s", other, n, id)
		}
		seen[id] = n
	}
}

func TestEV5_DerivedIDsSortByCreation(t *testing.T) {
	var ids []string
	for i := range 100 {
		e := event.Event{Seq: uint64(i + 1), Type: event.RunStarted, Time: at(time.Duration(i) * time.Millisecond)}
		ids = append(ids, e.ID(runA))
	}
	if !slices.IsSorted(ids) {
		t.Errorf("ids of events do not sort by their times: %q", ids)
	}
}

// TestEV5_IDsOfChildrenAreDerivedAndCarryTheTimeOfTheirParents proves that the ID of a run that
// another run started depends only on the sender, the operation and the slot. Therefore a repeated
// request finds the existing run. The ID contains the time of the sender. Lists sort runs by
// creation time instead, see ListHasAChildWhereItWasCreated in package storetest.
func TestEV5_IDsOfChildrenAreDerivedAndCarryTheTimeOfTheirParents(t *testing.T) {
	seen := map[event.RunID]string{}
	for _, parent := range []event.RunID{runA, runB} {
		for n := range 20_000 {
			slot := uint16(n % 3)
			operation := fmt.Sprint("child ", n/3)
			id := event.DerivedRunID(parent, operation, slot)
			what := fmt.Sprintf("%s of %s with slot %d", operation, parent, slot)
			if other, ok := seen[id]; ok {
				t.Fatalf("%s and %s have id %s", what, other, id)
			}
			seen[id] = what
			if !idForm.MatchString(string(id)) || !strings.HasPrefix(string(id), "wrun_") {
				t.Fatalf("%s: %q does not have the form of a run id", what, id)
			}
			if again := event.DerivedRunID(parent, operation, slot); again != id {
				t.Fatalf("%s is %s, and then %s", what, id, again)
			}
			if id.Slot() != slot || !id.Time().Equal(parent.Time()) {
				t.Fatalf("%s: %s has slot %d and time %v, want the time of its parent, %v", what, id, id.Slot(), id.Time(), parent.Time())
			}
		}
	}
	grandchild := event.DerivedRunID(event.DerivedRunID(runA, "x", 1), "x", 2)
	if !grandchild.Time().Equal(runA.Time()) {
		t.Errorf("a grandchild has time %v, want that of the root, %v", grandchild.Time(), runA.Time())
	}
	if again := event.DerivedRunID(runA, "x", 2); again == grandchild {
		t.Errorf("child and grandchild are both %s", again)
	}
}

func TestCorrelation_IsTheSameForAllEventsOfAnEntity(t *testing.T) {
	for name, log := range exampleLogs() {
		for i := range log {
			e := &log[i]
			want := string(runA)
			if e.Ref > 0 {
				want = log[e.Ref-1].Correlation(runA)
				prefix := e.Type.Entity().String() + "_"
				switch e.Type.Entity() { // prefixes have four letters
				case event.EntityChild:
					prefix = "chld_"
				case event.EntityAsk:
					prefix = "asks_"
				}
				if !strings.HasPrefix(want, prefix) {
					t.Errorf("%s: %s is about %s, want an id with %s", name, e.Type, want, prefix)
				}
			}
			if got := e.Correlation(runA); got != want {
				t.Errorf("%s: event %d (%s) is about %s, want %s", name, e.Seq, e.Type, got, want)
			}
		}
	}
}

func TestRandomNames_DifferAndPrintAsHex(t *testing.T) {
	hex := regexp.MustCompile(`^[0-9a-f]+$`)
	for what, tt := range map[string]struct {
		size int
		make func() string
	}{
		"cid":   {32, func() string { return event.NewCommitID().String() }},
		"token": {16, func() string { return event.NewToken().String() }},
		"item":  {32, func() string { return string(event.NewItemID()) }},
	} {
		seen := map[string]bool{}
		for range 1000 {
			s := tt.make()
			if seen[s] || len(s) != tt.size || !hex.MatchString(s) {
				t.Fatalf("%s %q is repeated or not %d hexadecimal digits", what, s, tt.size)
			}
			seen[s] = true
		}
	}
	if got, want := (event.CommitID{0xAB, 15: 1}).String(), "ab000000000000000000000000000001"; got != want {
		t.Errorf("CommitID prints as %s, want %s", got, want)
	}
	if got, want := (event.Token{0xAB, 7: 1}).String(), "ab00000000000001"; got != want {
		t.Errorf("token prints as %s, want %s", got, want)
	}
}

func TestDerivedItemID_IsStable(t *testing.T) {
	// If a store loses writes, a run sends its items a second time. The second items must have the
	// same IDs, so these values must never change.
	for operation, want := range map[string]event.ItemID{
		"":                        "45d5cf299cee97e933c9ef3ee1143f30",
		"fulfil/send.approval#1":  "3cc7d9a5f39953b21b456c2e71ba6561",
		"fulfil/send.approval#2":  "b5d425c0e9c1c1f8f3e353d67c791436",
		"fulfil/orders.invoice#1": "0aee602402e837d37a13603b149de164",
	} {
		if got := event.DerivedItemID(runA, operation); got != want {
			t.Errorf("DerivedItemID(%s, %q) = %q, want %q", runA, operation, got, want)
		}
	}
}

func TestDerivedItemID_DiffersBySenderAndOperation(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{32}$`)
	seen := map[event.ItemID]string{}
	for _, sender := range []event.RunID{"", "a", "ab", runA, runB} {
		for _, operation := range []string{"", "b", "ab", "a#1", "a#11", "a#111"} {
			id, by := event.DerivedItemID(sender, operation), fmt.Sprintf("%q %q", sender, operation)
			if !form.MatchString(string(id)) {
				t.Errorf("item %q of %s: want 32 hexadecimal digits, like any other item", id, by)
			}
			if other, ok := seen[id]; ok {
				t.Errorf("%s and %s both have item %s", other, by, id)
			}
			seen[id] = by
		}
	}
}

func TestDerivedRunID_IsStable(t *testing.T) {
	for _, tt := range []struct {
		operation string
		slot      uint16
		want      event.RunID
	}{
		{"", 0, "wrun_01JZ8Q4M5N8QAWYACWXTBYJ000"},
		{"fulfil/orders.invoice#1", 0, "wrun_01JZ8Q4M5N1BQ60902X0VX6000"},
		{"fulfil/orders.invoice#1", 0xFFFF, "wrun_01JZ8Q4M5N1BQ60902X0VX7ZZZ"},
		{"fulfil/orders.invoice#2", 7, "wrun_01JZ8Q4M5N2MKP96HF1CA9E007"},
	} {
		if got := event.DerivedRunID(runA, tt.operation, tt.slot); got != tt.want {
			t.Errorf("DerivedRunID(%s, %q, %d) = %q, want %q", runA, tt.operation, tt.slot, got, tt.want)
		}
	}
}

func TestDerivedRunID_IsARunIDOfItsSlotAndTheTimeOfItsSender(t *testing.T) {
	for _, slot := range []uint16{0, 1, 255, 256, 0x8000, 0xFFFF} {
		id := event.DerivedRunID(runA, "fulfil/orders.invoice#1", slot)
		if got, err := event.ParseRunID(string(id)); err != nil || got != id {
			t.Errorf("ParseRunID(%q) = %q, %v", id, got, err)
		}
		if got := id.Slot(); got != slot {
			t.Errorf("%s has slot %d, want %d", id, got, slot)
		}
		if got := id.Time(); !got.Equal(runA.Time()) {
			t.Errorf("%s has time %v, want that of its sender, %v", id, got, runA.Time())
		}
	}
}

func TestDerivedRunID_DiffersBySenderAndOperation(t *testing.T) {
	seen := map[event.RunID]string{}
	for _, sender := range []event.RunID{runA, runB, event.DerivedRunID(runA, "a", 7)} {
		for n := range 10_000 {
			by := fmt.Sprintf("%s child#%d", sender, n)
			id := event.DerivedRunID(sender, fmt.Sprintf("child#%d", n), 7)
			if other, ok := seen[id]; ok {
				t.Fatalf("%s and %s both start run %s", other, by, id)
			}
			seen[id] = by
		}
	}
}

func TestDerivedRunID_PanicsOnASenderThatIsNoRun(t *testing.T) {
	for _, sender := range []event.RunID{"", "order-42"} {
		func() {
			defer func() {
				if text := fmt.Sprint(recover()); !strings.Contains(text, fmt.Sprintf("%q", sender)) {
					t.Errorf("DerivedRunID of %q: panic %q, want one that names it", sender, text)
				}
			}()
			event.DerivedRunID(sender, "child#1", 0)
		}()
	}
}
