package worker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

// runs is the table of the runs that a worker owns or keeps in memory. It decides whether there is
// free capacity for another run.
type runs struct {
	*env
	// freed is notified when capacity was freed or a new due time was reported.
	freed wait.Notifier
	// idle is closed when the worker is stopping and has given back all runs.
	idle     chan struct{}
	claimSeq atomic.Uint64

	mu        sync.Mutex
	owned     map[event.RunID]*inputs
	parked    *parkedRuns
	behind    []bool         // by partition: whether ready runs of the partition may wait for a slot of this worker
	turns     turns          // turns of quarantined runs
	promised  map[string]int // slots reserved for claims in flight, by queue
	releasing int            // number of runs that are being given back without a commit
	reserved  int            // number of slots reserved for runs that commits claim
	limited   []store.Route  // routes of runs with permits that have ended or waited on this worker
	aside     map[event.RunID]*asideRun
	// passed maps a route to the time at which a claim last skipped a run of the route. never maps
	// a route with a run that needs more capacity than this worker has in total to the time at
	// which it was first skipped; see passOver.
	passed, never map[store.Route]time.Time
}

func newRuns(e *env) *runs {
	return &runs{
		env: e, freed: wait.NewNotifier(), idle: make(chan struct{}), owned: map[event.RunID]*inputs{}, parked: newParkedRuns(e.cfg.Parked),
		promised: map[string]int{}, behind: slices.Repeat([]bool{true}, e.store.Partitions()),
	}
}

// admit adds a run that is started on this worker. It reports false if the run must wait among the
// ready runs, because other runs wait for a slot or no slot is free. The claim is posted under the
// lock, so that it is the first input of the loop.
func (r *runs) admit(claim *runloop.Claim, loop func() *inputs) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.stopping.Load() || r.behind[claim.Partition] || r.turns.now.Load() != nil:
		return false
	case r.openIn(queueOf(claim.Route)) == 0:
		return false
	case r.occupied() >= r.cfg.Runs:
		r.behind[claim.Partition] = true // the run waits among the ready runs, and later starts must not overtake it
		return false
	}
	in := loop()
	in.label, in.queue = claim.Route.Workflow, queueOf(claim.Route)
	r.owned[in.id] = in
	in.post(runloop.Input{Kind: runloop.Claimed, Claim: claim})
	return true
}

// setBehind records whether ready runs of a partition may wait for a slot of this worker. If so,
// runs that are started on this worker wait behind them.
func (r *runs) setBehind(partition int, behind bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.behind[partition] = behind
}

// adopt adds a claimed run and posts the claim to its run loop, which is in memory or is created by
// loop. It does nothing if holds reports that the session of the claim is over.
func (r *runs) adopt(c *runloop.Claim, holds func() bool, loop func() *inputs) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !holds() || r.stopping.Load() {
		return // the session is over or will soon be closed, and the store recovers all its runs
	}
	in := r.owned[c.Run]
	if in == nil {
		if in = r.parked.take(c.Run); in == nil {
			in = loop()
		}
		r.owned[c.Run] = in
	}
	in.uses, in.queue = c.Uses, queueOf(c.Route)
	// If the run loop exists, it waits for the answer of the commit that has given the run back,
	// and handles the new claim after that. The claim is posted under the lock, so the run loop
	// cannot leave in between.
	c.Number = r.claimSeq.Add(1)
	if c.N == 1 {
		in.unbegun.Store(c)
	}
	in.post(runloop.Input{Kind: runloop.Claimed, Claim: c})
}

// own adds a run to the owned runs if it is not among them. It reports false if another run loop
// owns the run.
func (r *runs) own(in *inputs) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other := r.owned[in.id]; other != nil && other != in {
		return false
	}
	r.parked.remove(in)
	r.owned[in.id] = in
	return true
}

// disown removes a run from the owned runs, unless the run was claimed again. It keeps the run in
// memory, with the given number of branches, if there is space; with 0 branches it does not. It
// reports whether the run is kept.
func (r *runs) disown(in *inputs, branches int, claimedAgain bool) bool {
	r.mu.Lock()
	keep := branches > 0
	var evicted []*inputs
	switch {
	case r.owned[in.id] != in:
		keep = false // another run loop owns the run
	case claimedAgain || in.claimedAgain():
		keep = true // the run loop keeps the run and handles the pending claim
	default:
		delete(r.owned, in.id)
		clear(r.passed) // skipped runs may fit into the freed capacity
		if keep {
			evicted = r.parked.put(in, branches)
		}
	}
	r.dismiss(in)
	r.checkIdle()
	r.mu.Unlock()
	for _, old := range evicted {
		old.post(runloop.Input{Kind: runloop.Evict})
	}
	r.freed.Notify()
	return keep
}

// release gives a run back without a commit, in the background. If the request fails, the next
// reconciliation finds the run.
func (r *runs) release(run event.RunID, fence store.Fence) {
	if r.hard.Load() {
		return // closing the session gives back the run
	}
	r.mu.Lock()
	r.releasing++
	r.mu.Unlock()
	r.activity.Begin()
	r.work.Go(func() {
		defer r.activity.End()
		defer r.released()
		ctx, cancel := context.WithTimeout(r.io, 5*time.Second)
		defer cancel()
		_ = r.store.Release(ctx, run, fence) // if the release is fenced, another worker owns the run
	})
}

// released records that a release was answered or has failed.
func (r *runs) released() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.releasing--
	r.checkAlone()
	r.checkIdle()
}

// checkIdle closes idle if the worker is stopping and no run is left. The caller must hold the
// lock.
func (r *runs) checkIdle() {
	if !r.stopping.Load() || len(r.owned) > 0 || r.releasing > 0 {
		return
	}
	select {
	case <-r.idle:
	default:
		close(r.idle)
	}
}

// occupied returns the number of slots in use. Quarantined runs that wait for their turn use none.
// The caller must hold the lock.
func (r *runs) occupied() int { return len(r.owned) + r.reserved - len(r.turns.waiting) }

// full reports whether no slot for a run is free.
func (r *runs) full() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.occupied() >= r.cfg.Runs
}

// capacity returns the number of free slots for runs, or 0 during the turn of a quarantined run.
func (r *runs) capacity() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turns.now.Load() != nil {
		return 0
	}
	return r.cfg.Runs - r.occupied()
}

// all returns the owned runs and the parked runs. It removes the parked runs from the table.
func (r *runs) all() (owned, parked []*inputs) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Values(r.owned)), r.parked.all()
}

// stop makes all runs leave, and returns a channel that is closed once all have left.
func (r *runs) stop() <-chan struct{} {
	r.mu.Lock()
	r.checkIdle()
	all := slices.Collect(maps.Values(r.owned))
	r.mu.Unlock()
	for _, in := range all {
		in.post(runloop.Input{Kind: runloop.Stop})
	}
	return r.idle
}

func (r *runs) in(partition int) []*inputs {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []*inputs
	for _, in := range r.owned {
		if r.partitionOf(in.id) == partition {
			all = append(all, in)
		}
	}
	return all
}

func (r *runs) postTo(partition int, what runloop.Input) {
	for _, in := range r.in(partition) {
		in.post(what)
	}
}

// The following methods implement [lease.Owner].

func (r *runs) Owned(partition int) []event.RunID {
	var all []event.RunID
	for _, in := range r.in(partition) {
		all = append(all, in.id)
	}
	return all
}

func (r *runs) Knows(run event.RunID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.owned[run] != nil || r.isAside(run)
}

func (r *runs) Claims() uint64 { return r.claimSeq.Load() }

func (r *runs) OnOwned(partition int, fences map[event.RunID]store.Fence, claims uint64) {
	for _, in := range r.in(partition) {
		in.post(runloop.Input{Kind: runloop.Owned, Fence: fences[in.id], Seq: claims})
	}
}

func (r *runs) OnUnread(run event.RunID) {
	r.mu.Lock()
	in := r.owned[run]
	r.mu.Unlock()
	if in != nil {
		in.post(runloop.Input{Kind: runloop.Unread})
	}
}

func (r *runs) OnLost(partition int) { r.postTo(partition, runloop.Input{Kind: runloop.Lost}) }

func (r *runs) OnOpened() { r.freed.Notify() }

func (r *runs) OnLate(partition int) { r.postTo(partition, runloop.Input{Kind: runloop.Due}) }

// follow waits for the end of an owned run. The returned end is durable: the commit that ends the
// run was confirmed. follow reports false if the run leaves the worker without ending.
func (r *runs) follow(ctx context.Context, run event.RunID) (*localstart.End, bool) {
	told := make(chan *localstart.End, 1)
	r.mu.Lock()
	in := r.owned[run]
	if in == nil {
		r.mu.Unlock()
		return nil, false
	}
	in.mu.Lock()
	in.followers = append(in.followers, told)
	in.mu.Unlock()
	r.mu.Unlock()
	select {
	case end := <-told:
		return end, end != nil
	case <-ctx.Done():
	case <-r.io.Done():
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.followers = slices.DeleteFunc(in.followers, func(c chan *localstart.End) bool { return c == told })
	return nil, false
}

// If a run is so damaged that the store cannot even record it as blocked, the session of the worker
// continues to own it. The worker sets the run aside and does no work for it, so the run takes no
// slot. After a while the run is given back and claimed again, at growing intervals, because it may
// have been repaired. A stopping worker gives back all runs of its sessions.

// asideRun is a run that is set aside.
type asideRun struct {
	delay time.Duration
	until time.Time
}

const (
	asideFirst = 10 * time.Second
	asideMost  = 10 * time.Minute
)

// setAside records that a run is set aside and not given back at once.
func (r *runs) setAside(run event.RunID, workflow string, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.aside[run]
	if a == nil {
		if r.aside == nil {
			r.aside = map[event.RunID]*asideRun{}
		}
		a = &asideRun{}
		r.aside[run] = a
	}
	a.delay = min(max(2*a.delay, asideFirst), asideMost)
	a.until = r.clock.Now().Add(a.delay)
	r.log.Error("run is set aside: its blocked state cannot be written", "run", run, "workflow", workflow, "again", a.delay, "error", why)
}

// isAside reports whether a run is set aside. The caller must hold the lock.
func (r *runs) isAside(run event.RunID) bool {
	a := r.aside[run]
	return a != nil && r.clock.Now().Before(a.until)
}
