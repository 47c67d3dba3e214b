package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
)

// A run whose code was never executed can end without its code. If such a run was canceled or has
// timed out, any worker can end it, even a worker that does not serve it. The same holds for a run
// that executes a step for another run, even if an attempt was begun. Step code does not clean up
// after a dead worker, and the caller of the step has given up.
//
// The answers to heartbeats name such runs that no live session serves. The worker reads the
// beginning of each run, and claims by name the runs that must end. If a worker that serves the run
// claims it at the same time, the fence decides. A queue that is unserved only for a moment causes
// no harm, because the run ends with the same event that its own worker would have written. If user
// code of a run has begun, only workers that serve the run may end it, because only they have the
// code that cleans up and compensates.

// unserved ends runs of a partition that no live session serves.
type unserved struct {
	*env
	outage    *outage.Log
	partition int
	claim     func(ctx context.Context, run event.RunID) error
	told      *sync.Map // routes for which a warning was logged

	looking atomic.Bool
	looks   sync.WaitGroup
}

// look ends those of the given runs that must end. It works in the background, so it does not delay
// heartbeats. If an earlier call is still at work, it does nothing.
func (u *unserved) look(ctx context.Context, runs []event.RunID) {
	if len(runs) == 0 || u.stopping.Load() || !u.looking.CompareAndSwap(false, true) {
		return
	}
	u.looks.Go(func() {
		defer u.looking.Store(false)
		u.outage.Note(ctx, "find runs that no worker serves", u.end(ctx, runs), u.partition)
	})
}

// end claims those of the given runs that must end.
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
		if got.Err != nil || got.Record.QueueState != store.StateReady || u.served.claims(got.Record.Route) {
			continue // the run was removed, or a worker that serves it reports the error
		}
		if u.served.executes(got.Record.Route) { // the run is pinned to a build without workers, or the build of this worker is retired
			u.movable.Notify()
		}
		u.tellUnserved(&got.Record)
		if u.over(got) {
			if err := u.claim(ctx, got.Record.Run); err != nil && !errors.Is(err, store.ErrNotClaimable) {
				return err
			}
		}
	}
	return nil
}

// unservedAfter is how long a run waits for its first worker before other workers warn about it.
const unservedAfter = time.Minute

// tellUnserved logs a warning, once per route, about a run that has waited for long and that no
// worker serves. A common cause is a missing call of Register or a queue with another name.
func (u *unserved) tellUnserved(r *store.Record) {
	waited := u.clock.Now().Sub(r.CreatedAt)
	if waited < unservedAfter {
		return
	}
	if _, known := u.told.LoadOrStore(r.Route, true); known {
		return
	}
	queue, build := event.SplitQueue(r.Route.Queue)
	fix := "start a worker that registers the workflow or step and serves the queue, or cancel the run"
	if build != "" {
		fix = "start a worker of the build, or move its runs to another build with \"flowctl deploys retire " + build + "\""
	}
	u.log.Warn("a run waits for a worker, but no worker serves it", "run", r.Run, "workflow", r.Route.Workflow, "queue", queue, "pinned", build,
		"for", waited.Round(time.Second), "fix", fix)
}

// over reports whether an unserved run must end.
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
		return false // the run has begun, or a worker that serves it reports the error
	}
	var state event.LogState
	if state.Apply(&f.Events[0]) != nil {
		return false
	}
	return asked || runloop.OutOfTime(&state, u.clock.Now()) != nil
}
