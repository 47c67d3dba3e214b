package worker

import (
	"container/list"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// parkedRuns keeps waiting runs in memory and evicts the least recently parked ones. It is guarded
// by runs.mu.
type parkedRuns struct {
	limit    int // in branches
	branches int
	byID     map[event.RunID]*list.Element
	order    *list.List // of parkedRun, newest first
}

type parkedRun struct {
	in       *inputs
	branches int
}

func newParkedRuns(limit int) *parkedRuns {
	return &parkedRuns{limit: limit, byID: map[event.RunID]*list.Element{}, order: list.New()}
}

// put keeps a run with n branches, and returns the runs that are evicted for it.
func (p *parkedRuns) put(in *inputs, n int) []*inputs {
	p.byID[in.id] = p.order.PushFront(parkedRun{in, n})
	p.branches += n
	var evicted []*inputs
	for p.branches > p.limit {
		evicted = append(evicted, p.drop(p.order.Back()))
	}
	return evicted
}

func (p *parkedRuns) drop(e *list.Element) *inputs {
	r := p.order.Remove(e).(parkedRun)
	delete(p.byID, r.in.id)
	p.branches -= r.branches
	return r.in
}

// take removes and returns a run; nil if it was not kept.
func (p *parkedRuns) take(id event.RunID) *inputs {
	e := p.byID[id]
	if e == nil {
		return nil
	}
	return p.drop(e)
}

func (p *parkedRuns) remove(in *inputs) {
	if e := p.byID[in.id]; e != nil && e.Value.(parkedRun).in == in {
		p.drop(e)
	}
}

// all removes and returns every run.
func (p *parkedRuns) all() []*inputs {
	var all []*inputs
	for p.order.Len() > 0 {
		all = append(all, p.drop(p.order.Front()))
	}
	return all
}

// A waiting run is normally given back, and claimed by any worker with a free slot when an item
// arrives for it. A worker that did not execute it last must then read and replay its whole log. In
// a fleet, a run that calls a thousand steps on other workers would be replayed for nearly each
// result, and the total time would grow with the square of the number of steps. So the release of a
// run is delayed when the run waits again and was woken soon after its last release. Notifications
// for it then reach this worker, which reads the inbox and continues from memory.
//
// Nothing else differs. The run stays owned as during execution: its events are committed at once,
// its timers fire, and it is recovered with all runs of the worker. It leaves at once when the
// worker stops or has to execute a quarantined run. A run is not delayed if it holds what other
// runs may need: permits, capacity of the worker's local limits, or scarce slots.

// releaseDelay bounds both the time between a release and a wake that counts as soon, and the time
// for which an idle run stays.
const releaseDelay = 250 * time.Millisecond

// lingering is the state that decides whether the release of a waiting run is delayed.
type releaseDelayed struct {
	soon  bool      // the run was woken soon after its release
	moved time.Time // when the run was woken, or when its last commit with events was made
	until time.Time // when the delayed release takes place; zero if the release is not delayed
}

// wake records the claim of a run that was given back at left.
func (l *releaseDelayed) wake(left, now time.Time) {
	l.soon, l.moved = now.Sub(left) < releaseDelay, now
}

// stays decides whether the run stays although it would be given back with effect.
func (d *draft) stays(effect store.Effect) bool {
	d.until = time.Time{}
	until := d.moved.Add(releaseDelay)
	if effect != store.EffectPark || !d.soon || !d.clock.Now().Before(until) || d.stopping.Load() {
		return false
	}
	if f := d.run.State(); f.StandsStill() || len(f.Spec.Uses) > 0 || d.run.AtGate() || !d.stepping.runs.roomy(d.in, d.partition) {
		return false
	}
	d.until = until
	return true
}

// roomy reports whether a waiting run may keep its slot.
func (r *runs) roomy(in *inputs, partition int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns.now.Load() == nil && !r.behind[partition] && 2*r.occupied() <= r.cfg.Runs && r.cfg.AtOnce[in.queue] == 0 && len(in.uses) == 0
}
