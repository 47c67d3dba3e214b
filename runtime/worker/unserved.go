package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// A run of which no code was executed needs none to end: if somebody has canceled it, or its
// time is over, any worker can say so, whatever it serves. So can it for a run that executes a
// step for another one, also if its attempt was begun: the code of a step does not clean up
// after a worker that died, and who waits for it has given up. The store names such runs that
// nobody serves with the heartbeats; the worker reads the beginning of each, and claims by name
// those that are to end. The fence decides if their own worker comes just then, and nothing is lost if
// nobody serves a queue for a moment only: what these runs end with, their own worker would have
// written as well. A run of the user's code that has begun is left to its own workers:
// only they have the code that cleans up and compensates.

// lookAtUnserved ends those of the runs that are to end. It does not keep the heartbeats, and
// leaves it to a later one if it is still busy.
func (s *session) lookAtUnserved(runs []event.RunID) {
	if len(runs) == 0 || s.w.stopping.Load() || !s.looking.CompareAndSwap(false, true) {
		return
	}
	s.looks.Go(func() {
		defer s.looking.Store(false)
		s.w.outage.Note(s.ctx, "look at runs that nobody serves", s.w.endUnserved(s.ctx, runs), s.partition)
	})
}

// endUnserved claims those of the runs that are to end.
func (w *Worker) endUnserved(ctx context.Context, runs []event.RunID) error {
	loads := make([]store.Load, len(runs))
	for i, run := range runs {
		loads[i] = store.Load{Run: run, Limit: 1, Inbox: true}
	}
	loaded, err := w.store.Load(ctx, loads)
	if err != nil {
		return err
	}
	for i := range loaded {
		got := &loaded[i]
		if got.Err != nil || got.Record.Place != store.PlaceReady || w.serves[got.Record.Class] {
			continue // it is gone, or its own worker says what is wrong
		}
		w.tellUnserved(&got.Record)
		if w.over(got) {
			if err := w.claimByName(ctx, got.Record.Run); err != nil {
				return err
			}
		}
	}
	return nil
}

// unservedAfter is how long a run waits for its first worker before others say so.
const unservedAfter = time.Minute

// tellUnserved warns, once for each class, of a run that has waited for long and that nobody
// serves: mostly a Register is forgotten, or a queue has another name.
func (w *Worker) tellUnserved(r *store.Record) {
	waited := w.clock.Now().Sub(r.CreatedAt)
	if waited < unservedAfter {
		return
	}
	if _, known := w.told.LoadOrStore(r.Class, true); known {
		return
	}
	w.log.Warn("a run waits for a worker, and none serves it", "run", r.Run, "workflow", r.Class.Workflow, "queue", r.Class.Queue,
		"for", waited.Round(time.Second), "fix", "start a worker that registers the workflow or step and serves the queue, or cancel the run")
}

// over reports whether a run that nobody serves is to end.
func (w *Worker) over(got *store.Loaded) bool {
	asked := slices.ContainsFunc(got.Inbox, func(i store.Item) bool {
		e, err := event.DecodeItem(i.Body)
		return err == nil && e.Type == event.CancelRequested
	})
	if got.Record.N > 1 {
		_, remote := event.StepOfRun(got.Record.Class.Workflow)
		return remote && asked
	}
	if len(got.Frames) != 1 {
		return false
	}
	f, err := event.DecodeFrame(got.Frames[0])
	if err != nil || len(f.Events) != 1 {
		return false // it has begun, or its own worker says what is wrong
	}
	var fold event.Fold
	if fold.Apply(&f.Events[0]) != nil {
		return false
	}
	return asked || w.outOfTime(&fold) != nil
}

// outOfTime returns why a run that has not begun fails now without its code; nil: it does not.
func (w *Worker) outOfTime(f *event.Fold) *event.Failure {
	now := w.clock.Now()
	switch {
	case f.Held() && !now.Before(f.Due()):
		return notReleased(f)
	case f.Spec.Timeout > 0 && !now.Before(f.CreatedAt.Add(f.Spec.Timeout)):
		return &event.Failure{Code: event.CodeTimeout, Message: fmt.Sprintf("its time of %v was over before a worker had begun with it", f.Spec.Timeout)}
	}
	return nil
}

// claimByName makes a run a task of this worker, whatever its class.
func (w *Worker) claimByName(ctx context.Context, run event.RunID) error {
	s := w.sessions[int(run.Slot())%len(w.sessions)]
	id := s.current()
	s.mu.Lock()
	s.claiming++
	s.mu.Unlock()
	c, err := w.store.ClaimRun(ctx, s.partition, id, event.NewToken(), run)
	if err == nil {
		w.adopt(s, id, c)
	}
	s.mu.Lock()
	s.claiming--
	s.mu.Unlock()
	var ended *store.TerminalError
	switch {
	case errors.Is(err, store.ErrOwned), errors.Is(err, store.ErrNotClaimable), errors.Is(err, store.ErrRunNotFound),
		errors.Is(err, store.ErrExpired), errors.As(err, &ended):
		return nil // somebody else was faster
	}
	return err
}

// executeUnserved ends a run of a class that is not served here, or gives it back.
func (t *task) executeUnserved(events []event.Event, inbox []store.Item) {
	_, remote := event.StepOfRun(t.class.Workflow)
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
	t.pending = inbox
	for len(t.pending) > 0 && t.applyNext() { // all at once: no code runs, and what ends the run may be the last
	}
	t.pending = nil
	fold := t.run.Fold()
	switch {
	case t.run.Ended():
	case begun && fold.CancelRequested:
		t.end(event.Event{Type: event.RunCanceled, Failure: &event.Failure{
			Code: event.CodeCanceled, Message: strings.TrimSuffix("canceled while no worker served its queue: "+fold.CancelReason, ": "),
		}})
	case !begun:
		if f := t.w.outOfTime(fold); f != nil {
			t.end(event.Event{Type: event.RunFailed, Failure: f})
		}
	}
	if !t.run.Ended() {
		t.lose(&t.fence)
	}
}
