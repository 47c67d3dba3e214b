package worker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// replay replays the code of the run to the end of its log.
func (t *runLoop) replay(got *store.Loaded) {
	events, err := t.logEnd.decode(t.id, got.Frames)
	if err != nil {
		t.state, t.inbox.recent = stateLive, nil
		t.block(err)
		return
	}
	t.goLive(events, got.Inbox)
	if t.run != nil && t.fence.Epoch > 1 { // The run was given back before. At the first claim, the log may be a copy of another run's log.
		t.wake(events[len(events)-1].Time, t.since)
	}
}

// goLive executes or replays the code of the run with the given log events, and applies the given
// inbox items.
func (t *runLoop) goLive(events []event.Event, inbox []store.Item) {
	t.state, t.inbox.recent = stateLive, nil
	if !t.serves[t.route] {
		t.executeUnserved(events, inbox)
		return
	}
	program, short, ok := t.code.Program(t.route.Workflow, t.client, t.log)
	if !ok {
		t.lose(&t.fence) // this worker does not serve the route
		return
	}
	t.run = replay.New(t.id, short, program, &t.exec.pool)
	t.run.Stray, t.run.Unbounded = t.onStray, t.unbounded.has
	if t.recoveries >= t.cfg.Recoveries {
		t.poison(events, inbox)
		return
	}
	var err error
	t.exec.inUserCode(func() { err = t.run.Replay(events) })
	if err != nil {
		t.block(err)
		return
	}
	t.stepping.interrupted = runningSteps(t.run.State())
	t.draft.keepValues(events)
	if len(inbox) > 0 {
		t.inbox.logged = itemsIn(events)
	}
	t.block(t.inbox.takeItems(inbox))
}

// onStray handles a durable operation that user code has called on another goroutine. It wakes a
// waiting run, which would otherwise be blocked only at its next event.
func (t *runLoop) onStray(e *replay.StrayError) {
	t.log.Error("durable operation called on a goroutine of its own: the goroutine was ended", "run", t.id, "workflow", t.route.Workflow, "error", e)
	if !t.stopping.Load() {
		t.post(input{kind: inputTick})
	}
}

// executeUnserved ends a run whose route this worker does not serve, or gives the run back.
func (t *runLoop) executeUnserved(events []event.Event, inbox []store.Item) {
	_, remote := event.StepOfRun(t.route.Workflow)
	begun := len(events) != 1
	if begun && !remote {
		t.lose(&t.fence)
		return
	}
	t.run = replay.New(t.id, "", nil, &t.exec.pool)
	var err error
	if begun {
		err = t.run.Skip(events)
	} else {
		err = t.run.Replay(events)
	}
	if err != nil {
		t.lose(&t.fence)
		return
	}
	t.inbox.pending = inbox
	for more := true; more && len(t.inbox.pending) > 0; { // all items at once, because no code runs and the last item may end the run
		more, err = t.inbox.applyNext()
	}
	t.block(err)
	t.inbox.pending = nil
	state := t.run.State()
	switch {
	case t.run.Ended():
	case begun && state.CancelRequested:
		t.end(event.Event{Type: event.RunCanceled, Failure: &event.Failure{
			Code: event.CodeCanceled, Message: strings.TrimSuffix("canceled while no worker served its queue: "+state.CancelReason, ": "),
		}})
	case !begun:
		if f := outOfTime(state, t.clock.Now()); f != nil {
			t.end(event.Event{Type: event.RunFailed, Failure: f})
		}
	}
	if !t.run.Ended() {
		t.lose(&t.fence)
	}
}

// poison ends a run that has reached Recoveries, without executing its code.
func (t *runLoop) poison(events []event.Event, inbox []store.Item) {
	if err := t.run.Skip(events); err != nil {
		t.block(err)
		return
	}
	for _, item := range inbox {
		t.inbox.late = append(t.inbox.late, item.ID)
		t.inbox.taken = append(t.inbox.taken, item.ID)
	}
	if !t.run.State().Run.Terminal() {
		t.end(event.Event{Type: event.RunFailed, Failure: poisonFailure(t.run.State(), t.recoveries)})
	}
}

// poisonFailure returns the failure of a poisoned run with all known facts.
func poisonFailure(f *event.LogState, recoveries int) *event.Failure {
	var b strings.Builder
	fmt.Fprintf(&b, "its workers died %d times without any progress in between; its log ends at event %d (%s)", recoveries, f.Seq, f.Last)
	for _, ref := range runningSteps(f) {
		o := f.Open(ref)
		fmt.Fprintf(&b, "; attempt %d of step %s (%s) was under way", o.Attempt, o.Name, o.Key)
	}
	if f.Run == event.StatePending {
		b.WriteString("; its code never reached a durable operation")
	}
	b.WriteString(": find what ends the process, such as os.Exit, exhausted memory or a fatal error")
	return &event.Failure{Code: event.CodePoisoned, Message: b.String()}
}

func runningSteps(f *event.LogState) []uint64 {
	var refs []uint64
	if f.RunningSteps() == 0 {
		return nil
	}
	f.Opens(func(o *event.Open) bool {
		if o.State == event.StateRunning {
			refs = append(refs, o.Ref)
		}
		return true
	})
	slices.SortFunc(refs, cmp.Compare)
	return refs
}
