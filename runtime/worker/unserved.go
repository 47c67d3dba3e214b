package worker

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/store"
)

// A run of which no code was executed needs none to end: if somebody has canceled it, or its
// time is over, any worker can say so, whatever it serves. So can it for a run that executes a
// step for another one, even if its attempt was begun: the code of a step does not clean up
// after a worker that died, and its caller has given up. The store names such runs that
// nobody serves with the heartbeats; the worker reads the beginning of each, and claims by name
// those that must end. The fence decides if their own worker comes just then, and nothing is lost if
// nobody serves a queue for a moment only: what these runs end with, their own worker would have
// written as well. A run of the user's code that has begun is left to its own workers:
// only they have the code that cleans up and compensates.

// unserved looks at runs of a partition that nobody serves.
type unserved struct {
	*env
	outage    *outage.Log
	partition int
	claim     func(ctx context.Context, run event.RunID) error
	told      *sync.Map // routes of which it has said that nobody serves them

	looking atomic.Bool
	looks   sync.WaitGroup
}

// look ends those of the runs that must end. It does not delay the heartbeats, and
// leaves the work to a later one if it is still busy.
func (u *unserved) look(ctx context.Context, runs []event.RunID) {
	if len(runs) == 0 || u.stopping.Load() || !u.looking.CompareAndSwap(false, true) {
		return
	}
	u.looks.Go(func() {
		defer u.looking.Store(false)
		u.outage.Note(ctx, "look at runs that nobody serves", u.end(ctx, runs), u.partition)
	})
}

// end claims those of the runs that must end.
func (u *unserved) end(ctx context.Context, runs []event.RunID) error {
	loads := make([]store.Load, len(runs))
	for i, run := range runs {
		loads[i] = store.Load{Run: run, Limit: 1, Inbox: true}
	}
	loaded, err := u.store.Load(ctx, loads)
	if err != nil {
		return err
	}
	for i := range loaded {
		got := &loaded[i]
		if got.Err != nil || got.Record.QueueState != store.StateReady || u.serves[got.Record.Route] {
			continue // it is gone, or its own worker says what is wrong
		}
		u.tellUnserved(&got.Record)
		if u.over(got) {
			if err := u.claim(ctx, got.Record.Run); err != nil {
				return err
			}
		}
	}
	return nil
}

// unservedAfter is how long a run waits for its first worker before others say so.
const unservedAfter = time.Minute

// tellUnserved warns, once for each route, of a run that has waited for long and that nobody
// serves: mostly a Register is forgotten, or a queue has another name.
func (u *unserved) tellUnserved(r *store.Record) {
	waited := u.clock.Now().Sub(r.CreatedAt)
	if waited < unservedAfter {
		return
	}
	if _, known := u.told.LoadOrStore(r.Route, true); known {
		return
	}
	u.log.Warn("a run waits for a worker, and none serves it", "run", r.Run, "workflow", r.Route.Workflow, "queue", r.Route.Queue,
		"for", waited.Round(time.Second), "fix", "start a worker that registers the workflow or step and serves the queue, or cancel the run")
}

// over reports whether a run that nobody serves must end.
func (u *unserved) over(got *store.Loaded) bool {
	asked := slices.ContainsFunc(got.Inbox, func(i store.Item) bool {
		e, err := event.DecodeItem(i.Body)
		return err == nil && e.Type == event.CancelRequested
	})
	if got.Record.N > 1 {
		_, remote := event.StepOfRun(got.Record.Route.Workflow)
		return remote && asked
	}
	if len(got.Frames) != 1 {
		return false
	}
	f, err := event.DecodeFrame(got.Frames[0])
	if err != nil || len(f.Events) != 1 {
		return false // it has begun, or its own worker says what is wrong
	}
	var state event.LogState
	if state.Apply(&f.Events[0]) != nil {
		return false
	}
	return asked || outOfTime(&state, u.clock.Now()) != nil
}
