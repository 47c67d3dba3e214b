package console

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
)

// TestOPS2_AttemptsAreToldApart proves that failed, interrupted and completed attempts are drawn
// differently.
func TestOPS2_AttemptsAreToldApart(t *testing.T) {
	s := newSkeleton()
	at := time.UnixMilli(1_000_000)
	for i, e := range []admin.Event{
		{Type: "run_created", Ref: 1, Creates: true}, {Type: "step_created", Ref: 2, Creates: true, Name: "ship", Key: "fulfil/go#2/ship#1"}, {Type: "step_started", Ref: 2, Attempt: 1},
		{Type: "step_retrying", Ref: 2, Attempt: 1, Failure: &admin.Failure{Message: "503"}, Due: at.Add(time.Hour)}, {Type: "step_started", Ref: 2, Attempt: 2}, {Type: "step_started", Ref: 2, Attempt: 3},
		{Type: "step_completed", Ref: 2, Attempt: 3},
	} {
		e.Seq, e.Time = uint64(i+1), at.Add(time.Duration(i)*time.Second)
		s.add(&e)
	}
	ops := s.ops
	if len(ops) != 1 {
		t.Fatalf("there are %d operations, want 1", len(ops))
	}
	var got []string
	for _, a := range ops[0].attempts {
		got = append(got, a.state)
	}
	if diff := cmp.Diff([]string{stateFailed, stateBroken, stateDone}, got); diff != "" || ops[0].state != stateDone {
		t.Errorf("the step is %s, its attempts (-want +got):\n%s", ops[0].state, diff)
	}
}

func TestOPS2_DeepAndWidePayloadsAreCut(t *testing.T) {
	depth := func(v *valueView) (n int) {
		for ; v != nil; n++ {
			if len(v.Parts) == 0 {
				v = nil
			} else {
				v = v.Parts[0]
			}
		}
		return n
	}
	deep := payloadOf([]byte(strings.Repeat("[", 9000) + strings.Repeat("]", 9000)))
	if n := depth(deep.Tree); n != maxDepth+1 || !deep.Cut || deep.Tree.Parts[0].Text != "1 element" {
		t.Errorf("9,000 levels are shown as %d, cut: %v; want %d, cut", n, deep.Cut, maxDepth+1)
	}
	after := payloadOf([]byte(`{"deep":` + strings.Repeat("[", 20) + `1` + strings.Repeat("]", 20) + `,"n":9223372036854775808}`))
	if len(after.Tree.Parts) != 1 || !after.Cut {
		t.Errorf("behind what is too deep %d fields are shown: want none, and that it is cut", len(after.Tree.Parts)-1)
	}
	for v := after.Tree; len(v.Parts) > 0; v = v.Parts[0] {
		if len(v.Parts) != 1 {
			t.Errorf("%d values are shown where there is one", len(v.Parts))
		}
	}
	exact := payloadOf([]byte(`{"n":9223372036854775808,"n":1}`))
	if len(exact.Tree.Parts) != 2 || exact.Tree.Parts[0].Text != "9223372036854775808" {
		t.Errorf("a number of 64 bits and a name that is there twice: %+v", exact.Tree.Parts)
	}
}

func TestOPS2_WhatCannotBeSeenIsMadeVisible(t *testing.T) {
	for text, want := range map[string]string{"a\x00b": `a\u0000b`, "\u202eabc": `\u202eabc`, "\x1b[31m": `\u001b[31m`, "grün ✓\n\t": "grün ✓\n\t", "\xff": `\ufffd`} {
		if got := visible(text); got != want && !(text == "\xff" && got == "\ufffd") {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

// TestOPS2_AMachineIsDrawnWithItsStates proves that a state machine is drawn from its log, with its
// present state, its past states, and the states that it can enter next.
func TestOPS2_AMachineIsDrawnWithItsStates(t *testing.T) {
	s := newSkeleton()
	for i, e := range []admin.Event{
		{Type: "run_created", Ref: 1, Creates: true},
		{Type: "step_created", Ref: 2, Creates: true, Name: "shop.Order.reserve", Payload: admin.Payload(`{"state":{},"args":{}}`)},
		{Type: "step_completed", Ref: 2, Payload: admin.Payload(`{"state":{"n":1},"next":{"step":"shop.Order.charge"}}`)},
		{Type: "step_created", Ref: 4, Creates: true, Name: "shop.Order.charge", Payload: admin.Payload(`{"state":{"n":1},"args":{}}`)},
		{Type: "step_completed", Ref: 4, Payload: admin.Payload(`{"next":{"waits":[{"topic":"paid","step":"shop.Order.ship"}],"after":9,"then":{"step":"shop.Order.reserve"}}}`)},
		{Type: "step_created", Ref: 6, Creates: true, Name: "shop.Order.reserve", Payload: admin.Payload(`{"state":{"n":1},"args":{}}`)},
		{Type: "step_created", Ref: 7, Creates: true, Name: "no.machine", Payload: admin.Payload(`{"n":1}`)},
		{Type: "step_completed", Ref: 7, Payload: admin.Payload(`{"next":{"step":"nowhere"}}`)},
	} {
		e.Seq, e.Time = uint64(i+1), time.UnixMilli(int64(i))
		s.add(&e)
	}
	v := s.machineOf()
	if v == nil {
		t.Fatal("no machine is drawn")
	}
	var got []string
	for _, n := range v.Nodes {
		got = append(got, n.Label+" "+n.Kind)
	}
	for _, w := range v.Ways {
		got = append(got, strings.TrimSpace(w.Text+" "+map[bool]string{true: "taken", false: "open"}[w.Taken]))
	}
	if diff := cmp.Diff([]string{"reserve now", "charge been", "ship ahead", "taken", "taken", "on paid open"}, got); diff != "" {
		t.Errorf("the machine (-want +got):\n%s", diff)
	}
	if v.Width < 3*stateWidth || v.Height <= stateHeight || v.Said != "reserve: is in it; charge: has been in it; ship: may come" {
		t.Errorf("the drawing is %d by %d, and says %q", v.Width, v.Height, v.Said)
	}
	if newSkeleton().machineOf() != nil {
		t.Error("a run that is no machine is drawn as one")
	}
}

func TestOPS2_AttemptsAreComparedLineByLine(t *testing.T) {
	f := func(message, code string) *admin.Failure { return &admin.Failure{Message: message, Code: code} }
	got := attemptsOf([]*admin.Failure{f("timeout\nafter 3 s", "slow"), f("timeout\nafter 3 s", "slow"), f("timeout\nafter 5 s", "slow")})
	want := []attemptView{
		{Number: 1}, {Number: 2, Same: true},
		{Number: 3, Diff: []diffLine{{" ", "  timeout"}, {"-", "- after 3 s"}, {"+", "+ after 5 s"}, {" ", "  code: slow"}}},
	}
	for i := range got {
		got[i].Failure = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the attempts (-want +got):\n%s", diff)
	}
	if all := compare(strings.Repeat("a\n", 1000), ""); len(all) > maxDiffLines+2 {
		t.Errorf("a difference of %d lines is shown", len(all))
	}
	if all := diffLines("  a\n- b\n+ c\n\u202e"); len(all) != 4 || all[1].Kind != "-" || all[2].Kind != "+" || all[3].Text != `\u202e` {
		t.Errorf("got %+v", all)
	}
}

// TestOPS2_TheLastEventsAreFoundByTypeAndName proves that the last events of some types, and the
// last event of each name, are found without iterating over the log.
func TestOPS2_TheLastEventsAreFoundByTypeAndName(t *testing.T) {
	s := newSkeleton()
	for i := range 12 {
		kind := []string{"value_set", "message_received", "hook_received"}[i%3]
		s.add(&admin.Event{Seq: uint64(i + 1), Type: kind, Name: string(rune('d' - i%4)), Time: time.UnixMilli(int64(i))})
	}
	for _, c := range []struct {
		most  int
		kinds []string
		want  []uint64
		more  bool
	}{
		{3, []string{"message_received", "hook_received"}, []uint64{12, 11, 9}, true}, {4, []string{"value_set"}, []uint64{10, 7, 4, 1}, false},
		{3, []string{"value_set"}, []uint64{10, 7, 4}, true}, {9, []string{"nothing"}, nil, false},
	} {
		if got, more := s.at(c.most, c.kinds...); !slices.Equal(got, c.want) || more != c.more {
			t.Errorf("the last %d of %v are %v (more: %v), want %v (%v)", c.most, c.kinds, got, more, c.want, c.more)
		}
	}
	if names, all := s.newest(9, "value_set"); !slices.Equal(names, []string{"a", "b", "c", "d"}) || !slices.Equal(all, []uint64{4, 7, 10, 1}) {
		t.Errorf("the last of each name are %v %v", names, all)
	}
	if names, all := s.newest(2, "value_set"); !slices.Equal(names, []string{"b", "c"}) || !slices.Equal(all, []uint64{7, 10}) {
		t.Errorf("the last two of the names are %v %v", names, all)
	}
}

// TestOPS2_AnOperationIsDueAsItsLastEventSays proves that the due time of an operation is the due
// time in its last event.
func TestOPS2_AnOperationIsDueAsItsLastEventSays(t *testing.T) {
	s := newSkeleton()
	due := time.UnixMilli(5000)
	for i, e := range []admin.Event{{Type: "step_created", Creates: true}, {Type: "step_started"}, {Type: "step_retrying", Due: due, Failure: &admin.Failure{Message: "503"}}, {Type: "step_started"}} {
		e.Seq, e.Ref, e.Key, e.Time = uint64(i+1), 1, "order/ship#1", time.UnixMilli(int64(i))
		s.add(&e)
		if got, want := s.ops[0].note.due, map[bool]int64{true: 5000}[i == 2]; got != want {
			t.Errorf("after event %d it is due at %d, want %d", i+1, got, want)
		}
	}
	if got := s.ops[0].note.text; got != "503" {
		t.Errorf("it has failed with %q, want 503", got)
	}
}

// TestOPS2_GroupsThatAreKeptAreBounded proves that the number of cached failure groups is limited.
func TestOPS2_GroupsThatAreKeptAreBounded(t *testing.T) {
	g := newGroups()
	for i := range groupsKept + 10 {
		g.keep(groupKey{group: strings.Repeat("x", i)}, "text")
	}
	if len(g.said) > groupsKept {
		t.Errorf("%d groups are kept, want at most %d", len(g.said), groupsKept)
	}
	if text, ok := g.get(groupKey{group: strings.Repeat("x", groupsKept+9)}); !ok || text != "text" {
		t.Error("the last one is not kept")
	}
}

// TestOPS2_WhatARunWaitsForIsNamed proves that the page names up to four operations that a run
// waits for, the newest first, and the time since the oldest of them began.
func TestOPS2_WhatARunWaitsForIsNamed(t *testing.T) {
	s := newSkeleton()
	now := time.UnixMilli(60_000)
	for i, e := range []admin.Event{
		{Type: "child_created", Creates: true, Key: "order/pay#1", Name: "shop.pay"}, {Type: "wait_created", Creates: true, Key: "order/sleep#1", Due: now.Add(90 * time.Second)},
		{Type: "wait_created", Creates: true, Key: "order/receive#1", Name: "paid"}, {Type: "step_created", Creates: true, Key: "order/ship#1", Name: "shop.ship"}, {Type: "step_completed", Ref: 4},
		{Type: "hook_created", Creates: true, Key: "order/hook#1", Name: "door"},
	} {
		e.Seq, e.Time = uint64(i+1), time.UnixMilli(int64(1000*(i+1)))
		if e.Creates {
			e.Ref = e.Seq
		}
		s.add(&e)
	}
	want := []string{"hook door", "a message of paid", "a timer due in 1 min", "a run of shop.pay"}
	if got, since := s.waits(now); !slices.Equal(got, want) || since.UnixMilli() != 1000 {
		t.Errorf("it waits for %q since %v, want %q", got, since, want)
	}
	for n := range 3 {
		s.add(&admin.Event{Seq: uint64(7 + n), Ref: uint64(7 + n), Creates: true, Type: "ask_created", Key: fmt.Sprintf("order/ask#%d", n), Name: "limit"})
	}
	if got, _ := s.waits(now); !slices.Equal(got, []string{"ask limit", "ask limit", "ask limit", "hook door", "3 more"}) {
		t.Errorf("it waits for %q", got)
	}
	if got, since := newSkeleton().waits(now); got != nil || !since.IsZero() {
		t.Errorf("a run that has begun nothing waits for %q since %v", got, since)
	}
}
