package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

// A run of which no code was executed needs none to end: if somebody has canceled it, or its
// time is over, any worker can say so, whatever it serves. So every worker looks at such runs of
// other classes, those that wait for a step on a queue among them, in portions; and claims by
// name those that are to end. The fence decides if their own worker does so at the same time.
// A run that has begun is left to its own workers: only they have the code that cleans up.

const (
	// unservedPage and unservedPages bound what it looks at each time.
	unservedPage  = 100
	unservedPages = 10
)

// unservedLoop ends what is to end and nobody serves, until ctx ends.
func (w *Worker) unservedLoop(ctx context.Context) {
	defer w.work.Done()
	l, ok := store.As[store.Lister](w.store)
	if !ok {
		return
	}
	cursor, told := "", map[store.Class]bool{}
	for {
		var err error
		cursor, err = w.endUnserved(ctx, l, cursor, told)
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return
		}
		w.outage.Note(ctx, "look for runs that nobody serves", err)
		if !wait.For(ctx, w.clock, time.Duration((0.8+0.4*w.chance())*float64(w.cfg.Unserved))) {
			return
		}
	}
}

// endUnserved looks at the next portion of the runs that have not begun, and returns where the
// one after it begins.
func (w *Worker) endUnserved(ctx context.Context, l store.Lister, cursor string, told map[store.Class]bool) (string, error) {
	for range unservedPages {
		page, err := l.List(ctx, store.Query{
			Statuses: []event.Status{event.StatusPending, event.StatusHeld}, Cursor: cursor, Limit: unservedPage,
		})
		if err != nil {
			return "", err
		}
		var loads []store.Load
		for _, r := range page.Runs {
			w.tellUnserved(&r, told)
			if r.N == 1 && (r.Place == store.PlaceReady || r.Place == store.PlaceParked) && !w.serves[r.Class] {
				loads = append(loads, store.Load{Run: r.Run, Inbox: true})
			}
		}
		if err := w.claimOver(ctx, loads); err != nil {
			return "", err
		}
		if cursor = page.Cursor; cursor == "" {
			break
		}
	}
	return cursor, nil
}

// unservedAfter is how long a run waits for its first worker before others say so.
const unservedAfter = time.Minute

// tellUnserved warns, once for each class, of a run that has waited for long and that the worker
// does not serve: mostly nobody does, because a Register is forgotten or a queue has another
// name.
func (w *Worker) tellUnserved(r *store.Record, told map[store.Class]bool) {
	waited := w.clock.Now().Sub(r.CreatedAt)
	if r.Place != store.PlaceReady || waited < unservedAfter || w.serves[r.Class] || told[r.Class] {
		return
	}
	told[r.Class] = true
	w.log.Warn("a run waits for a worker, and this one does not serve it", "run", r.Run, "workflow", r.Class.Workflow, "queue", r.Class.Queue,
		"for", waited.Round(time.Second), "fix", "start a worker that registers the workflow or step and serves the queue, or cancel the run")
}

// claimOver claims those of the runs that are to end.
func (w *Worker) claimOver(ctx context.Context, loads []store.Load) error {
	if len(loads) == 0 {
		return nil
	}
	loaded, err := w.store.Load(ctx, loads)
	if err != nil {
		return err
	}
	for i := range loaded {
		if loaded[i].Err == nil && w.over(&loaded[i]) {
			if err := w.claimByName(ctx, loads[i].Run); err != nil {
				return err
			}
		}
	}
	return nil
}

// over reports whether a run that has not begun is to end.
func (w *Worker) over(got *store.Loaded) bool {
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
	return w.outOfTime(&fold) != nil || slices.ContainsFunc(got.Inbox, func(i store.Item) bool {
		e, err := event.DecodeItem(i.Body)
		return err == nil && e.Type == event.CancelRequested
	})
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
	if len(events) != 1 {
		t.lose(&t.fence)
		return
	}
	t.run = replay.New(t.id, "", nil, &t.exec.pool)
	if err := t.run.Replay(events); err != nil {
		t.lose(&t.fence)
		return
	}
	t.pending = inbox
	for len(t.pending) > 0 && t.applyNext() { // all at once: no code runs, and what ends the run may be the last
	}
	t.pending = nil
	if f := t.w.outOfTime(t.run.Fold()); f != nil && !t.run.Ended() {
		t.end(event.Event{Type: event.RunFailed, Failure: f})
	}
	if !t.run.Ended() {
		t.lose(&t.fence)
	}
}
