package worker

import (
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/publish"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// readClaimed is read for a run that was claimed just now: what the claim has
// brought need not be asked for.
func (t *runLoop) readClaimed(got *store.Loaded) {
	if got == nil {
		t.read()
		return
	}
	t.state = stateLoading
	t.post(input{kind: inputLoaded, loaded: &load{by: t, run: t.id, fence: t.fence, got: *got}})
}

// replay brings the code of the run to where its log ends.
func (t *runLoop) replay(got *store.Loaded) {
	events, err := t.decode(got.Frames)
	if err != nil {
		t.state, t.unread.recent = stateLive, nil
		t.block(err)
		return
	}
	t.goLive(events, got.Inbox)
}

// goLive makes a run live: its log holds these events, its inbox these items.
func (t *runLoop) goLive(events []event.Event, inbox []store.Item) {
	t.state, t.unread.recent = stateLive, nil
	if !t.serves[t.route] {
		t.executeUnserved(events, inbox)
		return
	}
	program, short, ok := t.code.Program(t.route.Workflow, t.client, t.log)
	if !ok {
		t.lose(&t.fence) // not served here
		return
	}
	t.run = replay.New(t.id, short, program, &t.exec.pool)
	t.run.Stray = t.onStray
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
	t.under.interrupted = runningSteps(t.run.Fold())
	t.keepValues(events)
	if len(inbox) > 0 {
		t.unread.logged = itemsIn(events)
	}
	t.takeItems(inbox)
}

// itemsIn returns the items that are in a log. Of what one worker took over at once and could
// not write with one commit, only the last commit consumes the items: who goes on with such
// a log finds them in the inbox, too, and must not apply them again.
func itemsIn(events []event.Event) map[event.ItemID]bool {
	known := map[event.ItemID]bool{}
	for i := range events {
		if item := events[i].Item; item != "" {
			known[item] = true
		}
	}
	return known
}

// onStray is told on a goroutine of the user's that it has called a durable operation.
// A run that waits is told, or it would be blocked by its next event only.
func (t *runLoop) onStray(e *replay.StrayError) {
	t.log.Error("durable operation called on a goroutine of its own: the goroutine was ended", "run", t.id, "workflow", t.route.Workflow, "error", e)
	if !t.stopping.Load() {
		t.post(input{kind: inputTick})
	}
}

// decode reads the frames of a log and checks that they are those of the claim.
func (t *runLoop) decode(frames [][]byte) ([]event.Event, error) {
	var events []event.Event
	var prev event.CommitID
	for i, b := range frames {
		f, err := event.DecodeFrame(b)
		if err != nil {
			return nil, fmt.Errorf("frame %d of the log of run %s: %w", i+1, t.id, err)
		}
		if f.Prev != prev {
			return nil, fmt.Errorf("frame %d of the log of run %s does not continue the frame before it: %w", i+1, t.id, event.ErrCorrupt)
		}
		prev = f.CommitID
		events = append(events, f.Events...)
		t.size.add(len(b), f.Events)
	}
	if last := uint64(len(events)); uint64(len(frames)) != t.n || last != t.seq || prev != t.last {
		return nil, fmt.Errorf("log of run %s ends with frame %d (%s) and event %d, its metadata says %d (%s) and %d: %w",
			t.id, len(frames), prev, last, t.n, t.last, t.seq, event.ErrCorrupt)
	}
	return events, nil
}

// keepValues lets a run that has not committed anything publish what it has taken
// over of an older one.
func (t *runLoop) keepValues(events []event.Event) {
	if t.n > 1 || t.run.Fold().Spec.Kept == 0 {
		return
	}
	t.news.again = publish.Again(events)
	if len(t.news.again) > 0 && !t.run.Ended() {
		t.apply(event.Event{Type: event.ValuesKept}) // the commit needs a frame
	}
}

// executeUnserved ends a run of a route that is not served here, or gives it back.
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
	t.unread.pending = inbox
	for len(t.unread.pending) > 0 && t.applyNext() { // all at once: no code runs, and what ends the run may be the last
	}
	t.unread.pending = nil
	fold := t.run.Fold()
	switch {
	case t.run.Ended():
	case begun && fold.CancelRequested:
		t.end(event.Event{Type: event.RunCanceled, Failure: &event.Failure{
			Code: event.CodeCanceled, Message: strings.TrimSuffix("canceled while no worker served its queue: "+fold.CancelReason, ": "),
		}})
	case !begun:
		if f := outOfTime(fold, t.clock.Now()); f != nil {
			t.end(event.Event{Type: event.RunFailed, Failure: f})
		}
	}
	if !t.run.Ended() {
		t.lose(&t.fence)
	}
}

// poison ends a run that has taken too many workers with it, without running
// any of its code.
func (t *runLoop) poison(events []event.Event, inbox []store.Item) {
	if err := t.run.Skip(events); err != nil {
		t.block(err)
		return
	}
	for _, item := range inbox {
		t.unread.late = append(t.unread.late, item.ID)
		t.unread.taken = append(t.unread.taken, item.ID)
	}
	if !t.run.Fold().Run.Terminal() {
		t.end(event.Event{Type: event.RunFailed, Failure: poisonFailure(t.run.Fold(), t.recoveries)})
	}
}

// poisonFailure tells everything that is known about a run that kills workers.
func poisonFailure(f *event.Fold, recoveries int) *event.Failure {
	var b strings.Builder
	fmt.Fprintf(&b, "its workers died %d times without any progress in between; its log ends at event %d (%s)", recoveries, f.Seq, f.Last)
	for _, ref := range runningSteps(f) {
		o := f.Open(ref)
		fmt.Fprintf(&b, "; attempt %d of step %s (%s) was under way", o.Attempt, o.Name, o.Key)
	}
	if f.Run == event.StatePending {
		b.WriteString("; its code never reached a durable operation")
	}
	b.WriteString(": look for what ends the process, such as os.Exit, memory or a fatal error")
	return &event.Failure{Code: event.CodePoisoned, Message: b.String()}
}
