package event_test

import (
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
)

func opens(f *event.LogState) map[uint64]event.Open {
	all := map[uint64]event.Open{}
	f.Opens(func(o *event.Open) bool {
		all[o.Ref] = *o
		return true
	})
	return all
}

func TestLogState_TellsWhatTheLogTells(t *testing.T) {
	logs := exampleLogs()
	type facts struct {
		Seq                     uint64
		Run                     event.State
		Created, Started, Ended time.Time
		Time                    time.Time
		Last                    event.Type
		Failure                 *event.Failure
		Next                    event.RunID
		CancelRequested         bool
		CancelReason            string
	}
	want := map[string]facts{
		"completed": {11, event.StateCompleted, start, at(time.Second), at(24 * time.Hour), at(24 * time.Hour), event.RunCompleted, nil, "", false, ""},
		"failed":    {7, event.StateFailed, start, at(time.Second), at(6 * time.Second), at(6 * time.Second), event.RunFailed, declined(), "", false, ""},
		"cancelled": {3, event.StateCanceled, start, time.Time{}, at(2 * time.Second), at(2 * time.Second), event.RunCanceled,
			&event.Failure{Message: "customer left", Code: event.CodeCanceled}, "", true, "customer left"},
		"gathered":   {4, event.StateRunning, start, at(3 * time.Second), time.Time{}, at(3 * time.Second), event.RunStarted, nil, "", false, ""},
		"pending":    {14, event.StateCompleted, start, at(time.Second), at(2 * time.Minute), at(2 * time.Minute), event.RunCompleted, nil, "", false, ""},
		"continued":  {9, event.StateContinued, start, at(time.Second), at(8 * time.Second), at(8 * time.Second), event.RunContinued, nil, runB, false, ""},
		"controlled": {10, event.StateFailed, start, at(2 * time.Second), at(9 * time.Second), at(9 * time.Second), event.RunFailed, declined(), "", false, ""},
		"delayed":    {9, event.StateFailed, start, at(time.Second), at(8 * time.Second), at(8 * time.Second), event.RunFailed, declined(), "", false, ""},
		"limited":    {7, event.StateCompleted, start, at(2 * time.Second), at(6 * time.Second), at(6 * time.Second), event.RunCompleted, nil, "", false, ""},
		"streaming":  {6, event.StateCompleted, start, at(time.Second), at(5 * time.Second), at(5 * time.Second), event.RunCompleted, nil, "", false, ""},
		"answered":   {7, event.StateCompleted, start, at(time.Second), at(6 * time.Second), at(6 * time.Second), event.RunCompleted, nil, "", false, ""},
		"heard":      {11, event.StateCompleted, start, at(time.Second), at(10 * time.Second), at(10 * time.Second), event.RunCompleted, nil, "", false, ""},
		"parent":     {15, event.StateCompleted, start, at(time.Second), at(14 * time.Second), at(14 * time.Second), event.RunCompleted, nil, "", false, ""},
	}
	for name, log := range logs {
		t.Run(name, func(t *testing.T) {
			f := stateOf(t, log)
			got := facts{f.Seq, f.Run, f.CreatedAt, f.StartedAt, f.EndedAt, f.Time, f.Last, f.Failure, f.Next, f.CancelRequested, f.CancelReason}
			if diff := cmp.Diff(want[name], got); diff != "" {
				t.Errorf("state differs (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(orderSpec(), f.Spec); diff != "" {
				t.Errorf("spec differs (-want +got):\n%s", diff)
			}
			if n := len(opens(f)); n != 0 {
				t.Errorf("%d entities are open at the end", n)
			}
			if !f.Due().IsZero() {
				t.Errorf("due %v at the end, want never", f.Due())
			}
		})
	}
}

func TestLogState_KeepsWhatIsOpen(t *testing.T) {
	failure := declined()
	log := numbered(
		event.Event{Type: event.RunCreated}, event.Event{Type: event.RunStarted},
		event.Event{Type: event.StepCreated, Name: "charge", Key: "f/charge#1"},
		event.Event{Type: event.StepStarted, Ref: 3, Attempt: 1},
		event.Event{Type: event.StepRetrying, Ref: 3, Attempt: 1, Failure: failure, Due: at(time.Hour)},
		event.Event{Type: event.StepCreated, Name: "ship", Key: "f/ship#1"},
		event.Event{Type: event.StepStarted, Ref: 6, Attempt: 1},
		event.Event{Type: event.StepStarted, Ref: 6, Attempt: 2},
		event.Event{Type: event.WaitCreated, Name: "approval", Key: "f/receive#1", Wait: event.WaitMessage, Due: at(time.Minute)},
		event.Event{Type: event.HookCreated, Name: "paid", Key: "f/paid#1", Token: "tok"},
		event.Event{Type: event.HookReceived, Ref: 10, Item: "item"},
		event.Event{Type: event.ValueRecorded, Key: "f/record#1"},
	)
	f := stateOf(t, log)
	sec := func(n int) time.Time { return at(time.Duration(n) * time.Second) }
	want := map[uint64]event.Open{
		3: {Ref: 3, Entity: event.EntityStep, State: event.StatePending, Name: "charge", Key: "f/charge#1", Attempt: 1,
			Due: at(time.Hour), Since: sec(2), Changed: sec(4), Failure: failure},
		6: {Ref: 6, Entity: event.EntityStep, State: event.StateRunning, Name: "ship", Key: "f/ship#1", Attempt: 2, Since: sec(5), Changed: sec(7)},
		9: {Ref: 9, Entity: event.EntityWait, State: event.StateWaiting, Name: "approval", Key: "f/receive#1", Wait: event.WaitMessage,
			Due: at(time.Minute), Since: sec(8), Changed: sec(8)},
		10: {Ref: 10, Entity: event.EntityHook, State: event.StateActive, Name: "paid", Key: "f/paid#1", Token: "tok", Since: sec(9), Changed: sec(10)},
	}
	if diff := cmp.Diff(want, opens(f)); diff != "" {
		t.Errorf("open entities differ (-want +got):\n%s", diff)
	}
	for ref := range uint64(14) {
		if o, wanted := f.Open(ref), want[ref]; (o == nil) != (wanted.Ref == 0) || f.StateOf(ref) != wanted.State {
			t.Errorf("event %d: open %v in state %s, want %s", ref, o, f.StateOf(ref), wanted.State)
		}
	}
	if got := f.RunningSteps(); got != 1 {
		t.Errorf("%d steps run, want 1", got)
	}
	if got := f.Due(); !got.Equal(at(time.Minute)) {
		t.Errorf("due %v, want %v", got, at(time.Minute))
	}
	seen := 0
	f.Opens(func(*event.Open) bool { seen++; return false })
	if seen != 1 {
		t.Errorf("Opens went on after the caller stopped: %d calls", seen)
	}
}

func TestLogState_HasNothingDueAfterTheEnd(t *testing.T) {
	f := stateOf(t, numbered(
		event.Event{Type: event.RunCreated}, event.Event{Type: event.RunStarted},
		event.Event{Type: event.WaitCreated, Wait: event.WaitSleep, Due: at(time.Hour)},
		event.Event{Type: event.RunCanceled},
	))
	if got := f.Due(); !got.IsZero() {
		t.Errorf("a run that has ended is due %v, want never", got)
	}
	if got := f.DueBy(at(2 * time.Hour)); len(got) > 0 {
		t.Errorf("%d entities of a run that has ended are due, want none", len(got))
	}
}

func TestLogState_ListsWhatIsDueInOrder(t *testing.T) {
	wait := func(due time.Time) event.Event {
		return event.Event{Type: event.WaitCreated, Wait: event.WaitSleep, Due: due}
	}
	retry := event.Event{Type: event.StepRetrying, Ref: 8, Due: at(time.Hour)}
	attempt := event.Event{Type: event.StepStarted, Ref: 8}
	log := numbered(
		event.Event{Type: event.RunCreated}, event.Event{Type: event.RunStarted},
		wait(at(2*time.Hour)), wait(at(time.Hour)), wait(at(3*time.Hour)), wait(time.Time{}), wait(at(time.Minute)),
		event.Event{Type: event.StepCreated}, attempt, retry, attempt, retry, // two retries of one step, due at the same time
		event.Event{Type: event.WaitCompleted, Ref: 7},
	)
	tests := map[time.Duration][]uint64{
		time.Minute:                 nil,
		time.Hour - time.Nanosecond: nil,
		time.Hour:                   {4, 8},
		2 * time.Hour:               {4, 8, 3},
		24 * time.Hour:              {4, 8, 3, 5},
	}
	f := stateOf(t, log)
	for d, want := range tests {
		for range 2 { // Reading must not change the state, so read twice.
			var got []uint64
			for _, o := range f.DueBy(at(d)) {
				got = append(got, o.Ref)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("due by %v (-want +got):\n%s", d, diff)
			}
		}
	}
}

func TestLogState_KeepsWhatIsDueThroughManyThatEnded(t *testing.T) {
	log := []event.Event{{Type: event.RunCreated}, {Type: event.RunStarted}}
	want := make([]uint64, 40)
	for i := range want {
		hours := i * 17 % len(want) // the due times are not in order of creation
		log = append(log, event.Event{Type: event.WaitCreated, Due: at(time.Duration(hours) * time.Hour)}, event.Event{Type: event.WaitCreated})
		want[hours] = uint64(len(log) - 1)
	}
	for range 500 {
		log = append(log, event.Event{Type: event.WaitCreated, Due: at(time.Hour)},
			event.Event{Type: event.WaitCompleted, Ref: uint64(len(log) + 1)})
	}
	log = numbered(log...)
	for range 10 { // removing stale entries iterates over a map in random order, so repeat the test
		var got []uint64
		for _, o := range stateOf(t, log).DueBy(at(100 * time.Hour)) {
			got = append(got, o.Ref)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("due (-want +got):\n%s", diff)
		}
	}
}

func TestLogState_KeepsTheFirstCancelRequest(t *testing.T) {
	f := stateOf(t, numbered(event.Event{Type: event.RunCreated},
		event.Event{Type: event.CancelRequested, Reason: "first"}, event.Event{Type: event.CancelRequested, Reason: "second"}))
	if !f.CancelRequested || f.CancelReason != "first" {
		t.Errorf("cancel requested: %t, because %q; want the first reason", f.CancelRequested, f.CancelReason)
	}
}

func TestLogState_GivesARunWithoutSpecAnEmptyOne(t *testing.T) {
	f := stateOf(t, numbered(event.Event{Type: event.RunCreated}))
	if diff := cmp.Diff(&event.Spec{}, f.Spec); diff != "" {
		t.Error(diff)
	}
}

func TestLogState_RefusesEventsOutOfPlaceAndStaysUnchanged(t *testing.T) {
	log := exampleLogs()["completed"][:5]
	tests := map[string]struct {
		log []event.Event
		e   event.Event
	}{
		"a repeated number":              {log, event.Event{Seq: 5, Type: event.ValueRecorded}},
		"a gap":                          {log, event.Event{Seq: 7, Type: event.ValueRecorded}},
		"number 0":                       {log, event.Event{Seq: 0, Type: event.ValueRecorded}},
		"an unknown type":                {log, event.Event{Seq: 6, Type: 99}},
		"no type":                        {log, event.Event{Seq: 6}},
		"a log without its first event":  {nil, event.Event{Seq: 1, Type: event.RunStarted}},
		"a log that starts with a fact":  {nil, event.Event{Seq: 1, Type: event.CancelRequested, Reason: "no"}},
		"a log that starts in its midst": {nil, event.Event{Seq: 4, Type: event.RunCreated}},
		"a wait for a step":              {log, event.Event{Seq: 6, Type: event.WaitCompleted, Ref: 3}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := stateOf(t, tt.log)
			if err := f.Apply(&tt.e); !errors.Is(err, event.ErrCorrupt) {
				t.Errorf("apply: %v, want ErrCorrupt", err)
			}
			if diff := diffStates(stateOf(t, tt.log), f); diff != "" {
				t.Errorf("a refused event changed the state (-before +after):\n%s", diff)
			}
		})
	}
}

func TestLogState_RefusesEventsAboutNothing(t *testing.T) {
	log := exampleLogs()["completed"][:5]
	for _, by := range event.Types() {
		if by.Creates() || by.Entity() == event.EntityRun || by.Entity() == event.EntityNone {
			continue
		}
		for _, ref := range []uint64{0, 1, 2, 4, 6, 7, 1 << 63} {
			f := stateOf(t, log)
			err := f.Apply(&event.Event{Seq: 6, Type: by, Ref: ref})
			checkRefusal(t, err, event.StateNone, by)
			if diff := diffStates(stateOf(t, log), f); diff != "" {
				t.Errorf("a refused event changed the state (-before +after):\n%s", diff)
			}
		}
	}
}

// cycles returns a state with n events of steps and waits that begin and end.
func cycles(t *testing.T, n int) *event.LogState {
	t.Helper()
	f := &event.LogState{}
	for _, typ := range []event.Type{event.RunCreated, event.RunStarted} {
		if err := f.Apply(&event.Event{Seq: f.Seq + 1, Type: typ}); err != nil {
			t.Fatal(err)
		}
	}
	cycle(t, f, n)
	return f
}

// cycle applies more events to f until it has n events.
func cycle(t *testing.T, f *event.LogState, n int) {
	t.Helper()
	apply := func(e event.Event) {
		e.Seq = f.Seq + 1
		if err := f.Apply(&e); err != nil {
			t.Fatal(err)
		}
	}
	for f.Seq+5 <= uint64(n) {
		apply(event.Event{Type: event.WaitCreated, Wait: event.WaitMessage, Due: at(24 * time.Hour)})
		apply(event.Event{Type: event.WaitCompleted, Ref: f.Seq})
		apply(event.Event{Type: event.StepCreated})
		ref := f.Seq
		apply(event.Event{Type: event.StepStarted, Ref: ref})
		apply(event.Event{Type: event.StepCompleted, Ref: ref})
	}
}

// TestLogState_CostsTheSamePerEventHoweverLongTheLog proves that the cost of an event does not grow
// with the log. It compares the fastest parts of 1,000 events at the start and at the end of a long
// log. Each part takes less than a time slice of a processor, so other processes slow down many
// parts, but not all.
func TestLogState_CostsTheSamePerEventHoweverLongTheLog(t *testing.T) {
	const part, parts, long = 1_000, 50, 100_000
	fastest := func(next func() *event.LogState) time.Duration {
		best := time.Duration(1 << 62)
		for range parts {
			f := next()
			began := time.Now()
			cycle(t, f, int(f.Seq)+part)
			best = min(best, time.Since(began))
		}
		return best
	}
	early := fastest(func() *event.LogState { return cycles(t, part) })
	f := cycles(t, long)
	late := fastest(func() *event.LogState { return f })
	t.Logf("%d events take %v in a log of %d, %v in one of %d", part, early, part, late, long)
	// If the cost were quadratic, the last part would take about a hundred times longer.
	if late > 10*early {
		t.Errorf("%d events take %v in a log of %d, %v in one of %d", part, early, part, late, long)
	}
}

func TestLogState_KeepsAboutOneBytePerEvent(t *testing.T) {
	const n = 400_000
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	f := cycles(t, n)
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 2*n {
		t.Errorf("the state of %d events keeps %d bytes, want about one each", n, kept)
	}
	runtime.KeepAlive(f)
}

func TestLogState_IsAsFarAfterEachPrefix(t *testing.T) {
	for name, log := range exampleLogs() {
		stepwise := &event.LogState{}
		for i := range log {
			if err := stepwise.Apply(&log[i]); err != nil {
				t.Fatal(err)
			}
			if diff := diffStates(stateOf(t, slices.Clone(log[:i+1])), stepwise); diff != "" {
				t.Errorf("%s: folding %d events in one go differs:\n%s", name, i+1, diff)
			}
		}
	}
}

// TestLogState_CountsAttemptsThatFailedByThemselves proves which attempts count. Attempts stopped
// by a shutdown, attempts that chose the time of the next attempt, and attempts of another run do
// not count. An attempt whose worker crashed counts, although only the next attempt is in the log.
func TestLogState_CountsAttemptsThatFailedByThemselves(t *testing.T) {
	began := func(n int) event.Event { return event.Event{Type: event.StepStarted, Ref: 3, Attempt: n} }
	ended := func(n int, code string) event.Event {
		e := event.Event{Type: event.StepRetrying, Ref: 3, Attempt: n, Due: at(time.Hour)}
		if code != "" {
			e.Failure = &event.Failure{Code: code}
		}
		return e
	}
	log := numbered(
		event.Event{Type: event.RunCreated}, event.Event{Type: event.RunStarted}, event.Event{Type: event.StepCreated},
		began(1), ended(1, event.CodeStopped), began(2), ended(2, event.CodeError), began(3), began(4), ended(4, event.CodeStopped),
		began(5), ended(0, ""), began(1), ended(1, event.CodeStopped), began(2),
		ended(2, event.CodeRetryAfter), began(3), ended(3, event.CodeRetryAfter), began(4), ended(0, ""), began(1),
	)
	want := map[int]int{4: 1, 5: 0, 6: 1, 7: 1, 8: 2, 9: 3, 10: 2, 11: 3, 12: 0, 13: 1, 14: 0, 15: 1, 16: 0, 17: 1, 18: 0, 19: 1, 20: 0, 21: 1}
	var f event.LogState
	for i := range log {
		if err := f.Apply(&log[i]); err != nil {
			t.Fatal(err)
		}
		if n, ok := want[i+1]; ok && f.Open(3).Counted() != n {
			t.Errorf("after event %d: %d attempts count, want %d", i+1, f.Open(3).Counted(), n)
		}
	}
}

// TestLogState_KnowsHowManyEarlyEventsDoNotCount proves that the number recorded at the start of a
// run applies to the whole log. A later release that counts differently does not change it.
func TestLogState_KnowsHowManyEarlyEventsDoNotCount(t *testing.T) {
	for payload, want := range map[string]uint64{"": 0, "1": 1, "9": 2, "-1": 0, "null": 0, `"2"`: 0} {
		var f event.LogState
		for i, e := range []event.Event{{Type: event.RunCreated}, {Type: event.RunStarted, Payload: []byte(payload)}} {
			e.Seq = uint64(i + 1)
			if err := f.Apply(&e); err != nil {
				t.Fatal(err)
			}
		}
		if f.Uncounted != want {
			t.Errorf("payload %q: got %d events that do not count, want %d", payload, f.Uncounted, want)
		}
	}
}
