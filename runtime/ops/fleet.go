package ops

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Fleet contains the workers of a store and the numbers of open runs on their queues.
type Fleet struct {
	At      time.Time    // time of the state, by the clock of the store
	Workers []WorkerInfo // sorted by name and then by build
	Queues  []QueueInfo  // sorted by queue and then by workflow
}

// WorkerInfo describes a worker. A worker has a session in each partition of the store. A
// WorkerInfo combines all sessions that have the same name and build.
type WorkerInfo struct {
	Name  string // worker.Config.Name
	Build string // fingerprint of the code that the worker executes
	// Serves contains the queues and workflows whose runs the worker claims.
	Serves []store.Route
	// Sessions is the number of sessions of the worker. Live is the number of sessions with a valid
	// lease. If Live is 0, the worker has ended or cannot reach the store, and other workers
	// recover its runs.
	Sessions, Live int
	Lease          time.Time // end of the lease that expires first if it is not renewed
	Running        int       // number of runs that the worker has claimed
}

// QueueInfo contains the numbers of open runs of a workflow on a queue. The names of internal
// workflows belong to the runtime, see workflow.Filter.Internal.
type QueueInfo struct {
	Queue    string
	Workflow string

	Ready   int // runs that wait for a worker
	Waiting int // runs that wait only for permits of limits
	Running int // runs that workers have claimed
	Parked  int // runs that sleep, or wait for messages, answers or the previous run
	Blocked int // runs that wait for a worker whose code matches their logs
	// Inexact reports that the store did not read all runs, so the numbers may be slightly wrong.
	// See store.RouteLoad.
	Inexact bool
	// Oldest and OldestRun describe the ready run that has waited longest for a worker. Both are
	// zero if no run is ready. Oldest is the latest of the creation of the run, its last event and
	// the due time of its timer or delayed start. The run may have become ready later, because a
	// message has woken it. Only the first ready run of each of the four highest priorities
	// is examined.
	Oldest    time.Time
	OldestRun workflow.RunID
	// Workers is the number of live workers that serve the queue and the workflow.
	Workers int
}

// Fleet returns the workers and queues. It does not need a running worker. Its cost depends on the
// number of workers and queues, and not on the number of runs. The error matches
// workflow.ErrNotSupported if the store does not provide the data.
func (c *Client) Fleet(ctx context.Context) (Fleet, error) {
	reader, err := capability[store.FleetTeller](c, "read the fleet")
	if err != nil {
		return Fleet{}, err
	}
	state, err := reader.Fleet(ctx)
	c.inner.LogDamage()
	if err != nil {
		return Fleet{}, err
	}
	f := Fleet{At: state.Now, Workers: workersOf(&state)}
	serving := map[store.Route]int{}
	for i := range f.Workers {
		for _, route := range f.Workers[i].Serves {
			if f.Workers[i].Live > 0 {
				serving[route]++
			}
		}
	}
	loads := unpinned(state.Routes)
	for i := range loads {
		l := &loads[i]
		f.Queues = append(f.Queues, QueueInfo{
			Queue: l.Queue, Workflow: l.Workflow, Ready: l.Ready, Waiting: l.Waiting, Running: l.Owned, Parked: l.Parked, Blocked: l.Blocked,
			Inexact: l.Inexact, Workers: serving[l.Route],
		})
	}
	if err := c.findOldest(ctx, state.Now, loads, f.Queues); err != nil {
		return Fleet{}, fmt.Errorf("read the fleet: %w", err)
	}
	return f, nil
}

// unpinned returns the loads of routes, with the runs that are pinned to builds in the routes of the
// others. So the number of queues does not depend on the number of builds.
func unpinned(routes []store.RouteLoad) []store.RouteLoad {
	all := make([]store.RouteLoad, 0, len(routes))
	at := map[store.Route]int{}
	for i := range routes {
		l := routes[i]
		l.Queue, _ = event.SplitQueue(l.Queue)
		n, known := at[l.Route]
		if !known {
			at[l.Route] = len(all)
			all = append(all, l)
			continue
		}
		all[n].Add(&l)
	}
	slices.SortFunc(all, func(a, b store.RouteLoad) int { return store.CompareRoutes(a.Route, b.Route) })
	return all
}

// workersOf combines the sessions of each worker. It ignores sessions without routes and without
// code. They belong to clients that end a run themselves, and exist only briefly.
func workersOf(state *store.Fleet) []WorkerInfo {
	type id struct{ name, build string }
	at := map[id]*WorkerInfo{}
	for i := range state.Sessions {
		s := &state.Sessions[i]
		if len(s.Routes) == 0 && s.Fingerprint == "" {
			continue
		}
		key := id{s.Worker, s.Fingerprint}
		w := at[key]
		if w == nil {
			w = &WorkerInfo{Name: s.Worker, Build: s.Fingerprint, Lease: s.Expires}
			at[key] = w
		}
		w.Sessions, w.Running = w.Sessions+1, w.Running+s.Owned
		if s.Live(state.Now) {
			w.Live++
		}
		if s.Expires.Before(w.Lease) {
			w.Lease = s.Expires
		}
		for _, route := range s.Routes {
			route.Queue, _ = event.SplitQueue(route.Queue)
			w.Serves = append(w.Serves, route)
		}
	}
	all := make([]WorkerInfo, 0, len(at))
	for _, w := range at {
		slices.SortFunc(w.Serves, store.CompareRoutes)
		w.Serves = slices.Compact(w.Serves)
		all = append(all, *w)
	}
	slices.SortFunc(all, func(a, b WorkerInfo) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Build, b.Build)) })
	return all
}

// findOldest sets Oldest and OldestRun of the queues. It reads the first ready runs in two
// requests, first the lengths of their logs and then their last frames. No store records when a run
// became ready: the ready runs of a store are ordered by numbers, which are no times.
func (c *Client) findOldest(ctx context.Context, now time.Time, routes []store.RouteLoad, queues []QueueInfo) error {
	var loads []store.Load
	var of []*QueueInfo
	for i := range routes {
		for _, run := range routes[i].First {
			loads, of = append(loads, store.Load{Run: run, Limit: -1}), append(of, &queues[i])
		}
	}
	if len(loads) == 0 {
		return nil
	}
	records, err := c.store.Load(ctx, loads)
	if err != nil {
		return err
	}
	for i := range loads {
		if n := records[i].Record.N; n > 0 {
			loads[i].After, loads[i].Limit = n-1, 1
		}
	}
	loaded, err := c.store.Load(ctx, loads)
	if err != nil {
		return err
	}
	for i := range loaded {
		since, ready := readySince(&loaded[i], now)
		if q := of[i]; ready && (q.OldestRun == "" || since.Before(q.Oldest)) {
			q.Oldest, q.OldestRun = since, loads[i].Run
		}
	}
	return nil
}

// readySince returns the earliest time at which a run may have become ready. l contains the last
// frame of its log. ok is false if the run is not ready or cannot be read.
func readySince(l *store.Loaded, now time.Time) (time.Time, bool) {
	if l.Err != nil || l.Record.QueueState != store.StateReady {
		return time.Time{}, false
	}
	since := l.Record.CreatedAt
	if len(l.Frames) == 0 {
		return since, true
	}
	f, err := event.DecodeFrame(l.Frames[len(l.Frames)-1])
	if err != nil {
		return time.Time{}, false // the worker that claims the run reports the error
	}
	for i := range f.Events {
		e := &f.Events[i]
		times := []time.Time{e.Time, e.Due}
		if e.Spec != nil {
			times = append(times, e.Spec.StartAt)
		}
		for _, at := range times {
			if at.After(since) && !at.After(now) {
				since = at
			}
		}
	}
	return since, true
}
