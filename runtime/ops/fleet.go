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

// Fleet contains the workers on a store and the number of runs that wait for them.
type Fleet struct {
	At      time.Time    // by the store's clock
	Workers []WorkerInfo // sorted by name, then build
	Queues  []QueueInfo  // sorted by queue, then workflow
}

// WorkerInfo describes a worker as the store sees it. A worker has a session in each partition of
// the store; the sessions with one name and one build are combined.
type WorkerInfo struct {
	Name  string // worker.Config.Name
	Build string // fingerprint of the code that it executes
	// Serves contains the queues and workflows whose runs the worker takes.
	Serves []store.Route
	// Sessions is the number of its sessions, Live the number of those whose lease is valid. A
	// worker without a live session has ended or cannot reach the store; its runs go to other
	// workers.
	Sessions, Live int
	Lease          time.Time // end of the lease that expires first, unless it is renewed
	Running        int       // number of runs that it has claimed
}

// QueueInfo contains the number of open runs of a workflow on a queue. Internal runs, which hold
// permits or execute steps for other runs, have workflow names of the runtime: see
// workflow.Filter.Internal.
type QueueInfo struct {
	Queue    string
	Workflow string

	Ready   int // waiting for a worker
	Waiting int // waiting only for permits of limits
	Running int // claimed by workers
	Parked  int // sleeping, or waiting for messages, answers or the previous run
	Blocked int // waiting for a worker whose code fits their logs
	// Inexact reports that the store did not visit all runs, so the numbers may be slightly wrong;
	// see store.RouteLoad.
	Inexact bool
	// Oldest is a lower bound for the time since which the longest-waiting ready run has been
	// ready, and OldestRun is that run. Both are zero if no run is ready. The time is the latest of
	// the run's creation, its last event and the due time of its timer; a wakeup by a message or a
	// delayed start has no time of its own. Only the first ready run of each of the four highest
	// priorities of a queue and workflow is examined.
	Oldest    time.Time
	OldestRun workflow.RunID
	// Workers is the number of live workers that serve the queue and workflow.
	Workers int
}

// Fleet returns the workers and queues, whether or not a worker is running. Its cost grows with
// their number, not with the number of runs. The error matches workflow.ErrNotSupported if the store does
// not provide the data.
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
	f := Fleet{At: state.Now, Workers: workersOf(&state), Queues: make([]QueueInfo, len(state.Routes))}
	serving := map[store.Route]int{}
	for i := range f.Workers {
		for _, route := range f.Workers[i].Serves {
			if f.Workers[i].Live > 0 {
				serving[route]++
			}
		}
	}
	for i := range state.Routes {
		l := &state.Routes[i]
		f.Queues[i] = QueueInfo{
			Queue: l.Queue, Workflow: l.Workflow, Ready: l.Ready, Waiting: l.Waiting, Running: l.Owned, Parked: l.Parked, Blocked: l.Blocked,
			Inexact: l.Inexact, Workers: serving[l.Route],
		}
	}
	if err := c.findOldest(ctx, &state, f.Queues); err != nil {
		return Fleet{}, fmt.Errorf("read the fleet: %w", err)
	}
	return f, nil
}

// workersOf combines the sessions of each worker. Sessions that serve nothing belong to clients
// that end a run themselves, and last only a moment.
func workersOf(state *store.Fleet) []WorkerInfo {
	type id struct{ name, build string }
	at := map[id]*WorkerInfo{}
	for i := range state.Sessions {
		s := &state.Sessions[i]
		if len(s.Routes) == 0 {
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
		w.Serves = append(w.Serves, s.Routes...)
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

// findOldest reads the first ready runs in two requests: the lengths of their logs, then their last
// frames.
func (c *Client) findOldest(ctx context.Context, state *store.Fleet, queues []QueueInfo) error {
	var loads []store.Load
	var of []*QueueInfo
	for i := range state.Routes {
		for _, run := range state.Routes[i].First {
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
		if n := records[i].Record.N; n > 1 {
			loads[i].After, loads[i].Limit = n-1, 1
		}
	}
	loaded, err := c.store.Load(ctx, loads)
	if err != nil {
		return err
	}
	for i := range loaded {
		since, ready := readySince(&loaded[i], state.Now)
		if q := of[i]; ready && (q.OldestRun == "" || since.Before(q.Oldest)) {
			q.Oldest, q.OldestRun = since, loads[i].Run
		}
	}
	return nil
}

// readySince returns the earliest time since which a run may have been ready. l contains its last
// frame, unless that is the first one. It returns false if the run is not ready or cannot be read.
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
		return time.Time{}, false // the worker that claims it reports the error
	}
	for i := range f.Events {
		for _, at := range []time.Time{f.Events[i].Time, f.Events[i].Due} {
			if at.After(since) && !at.After(now) {
				since = at
			}
		}
	}
	return since, true
}
