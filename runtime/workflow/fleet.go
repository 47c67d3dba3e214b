package workflow

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Fleet is the workers on a store, and what waits for them.
type Fleet struct {
	At      time.Time    // by the clock of the store
	Workers []WorkerInfo // by name, then by build
	Queues  []QueueInfo  // by queue, then by workflow
}

// WorkerInfo is a worker as the store knows it. A worker has a session in each partition of the store, and
// those of one name and one build are shown as one.
type WorkerInfo struct {
	Name  string // worker.Config.Name
	Build string // fingerprint of the code that it executes
	// Serves are the queues and workflows whose runs it takes.
	Serves []store.Route
	// Sessions is how many it has, Live how many of them have a lease that lasts. A worker of which none lives has
	// ended, or cannot reach the store: its runs go to others.
	Sessions, Live int
	Lease          time.Time // when the first of its leases ends, unless it is renewed
	Running        int       // runs that it has
}

// QueueInfo is how many runs of a workflow on a queue there are that have not ended. Those that hold tokens or execute steps for other runs have
// workflow names of the runtime's own: see [Filter].Internal.
type QueueInfo struct {
	Queue    string
	Workflow string

	Ready   int // wait for a worker
	Waiting int // wait for permits of limits, and for nothing else
	Running int // workers have them
	Parked  int // sleep, or wait for messages, answers or the run before them
	Blocked int // wait for a worker whose code fits their logs
	// Inexact says that the store has not looked at all runs: the numbers may be a little off, as store.RouteLoad says.
	Inexact bool
	// Oldest is since when, at the earliest, the run has been ready that has waited for longest, and OldestRun is that run; zero: none is ready. It is
	// when the run was created, or when its last event was written, or when what it slept for was due: a message that has woken it, or a delay of its start, has
	// no time of its own. Of runs of one queue, workflow and priority that have become ready the first is looked at, of the four
	// highest priorities.
	Oldest    time.Time
	OldestRun RunID
	// Workers is how many workers that live serve it.
	Workers int
}

// Fleet returns the workers and the queues, whether a worker is at work or not. What it costs grows with their number, and not with that of runs.
// [ErrNotSupported]: the store cannot tell.
func (c *Client) Fleet(ctx context.Context) (Fleet, error) {
	if err := c.check(); err != nil {
		return Fleet{}, fmt.Errorf("ask for the fleet: %w", err)
	}
	teller, ok := store.As[store.FleetTeller](c.store)
	if !ok {
		return Fleet{}, fmt.Errorf("ask for the fleet: %w", ErrNotSupported)
	}
	told, err := teller.Fleet(ctx)
	c.tellDamage()
	if err != nil {
		return Fleet{}, err
	}
	f := Fleet{At: told.Now, Workers: workersOf(&told), Queues: make([]QueueInfo, len(told.Routes))}
	serving := map[store.Route]int{}
	for i := range f.Workers {
		for _, route := range f.Workers[i].Serves {
			if f.Workers[i].Live > 0 {
				serving[route]++
			}
		}
	}
	for i := range told.Routes {
		l := &told.Routes[i]
		f.Queues[i] = QueueInfo{
			Queue: l.Queue, Workflow: l.Workflow, Ready: l.Ready, Waiting: l.Waiting, Running: l.Owned, Parked: l.Parked, Blocked: l.Blocked,
			Inexact: l.Inexact, Workers: serving[l.Route],
		}
	}
	if err := c.findOldest(ctx, &told, f.Queues); err != nil {
		return Fleet{}, fmt.Errorf("ask for the fleet: %w", err)
	}
	return f, nil
}

// workersOf puts the sessions of each worker together. Those that serve nothing are of clients that end a run
// by themselves, and are over in a moment.
func workersOf(told *store.Fleet) []WorkerInfo {
	type id struct{ name, build string }
	at := map[id]*WorkerInfo{}
	for i := range told.Sessions {
		s := &told.Sessions[i]
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
		if s.Live(told.Now) {
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

// findOldest reads the runs that come first, in two requests: where their logs end, and what stands there.
func (c *Client) findOldest(ctx context.Context, told *store.Fleet, queues []QueueInfo) error {
	var loads []store.Load
	var of []*QueueInfo
	for i := range told.Routes {
		for _, run := range told.Routes[i].First {
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
		since, ready := readySince(&loaded[i], told.Now)
		if q := of[i]; ready && (q.OldestRun == "" || since.Before(q.Oldest)) {
			q.Oldest, q.OldestRun = since, loads[i].Run
		}
	}
	return nil
}

// readySince returns since when a run may have been ready, of which the last frame was read unless it is the first one; false: it is
// not ready any more, or cannot be read.
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
		return time.Time{}, false // whoever claims it says what is wrong
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
