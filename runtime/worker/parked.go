package worker

import (
	"container/list"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// parkedRuns keeps waiting runs in memory and evicts the least recently parked ones. runs.mu guards
// it.
type parkedRuns struct {
	limit    int // maximum number of branches
	branches int
	byID     map[event.RunID]*list.Element
	order    *list.List // elements are of type parkedRun, newest first
}

type parkedRun struct {
	in       *inputs
	branches int
}

func newParkedRuns(limit int) *parkedRuns {
	return &parkedRuns{limit: limit, byID: map[event.RunID]*list.Element{}, order: list.New()}
}

// put keeps a run with n branches in memory, and returns the runs that are evicted in exchange.
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

// take removes and returns a run. It returns nil if the run was not kept.
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

// By default a waiting run is given back, and any worker with a free slot claims it when an item
// arrives. A worker that did not execute the run last must then read and replay its whole log. In a
// fleet, a run that calls a thousand steps on other workers would be replayed for nearly every
// result. The total time would grow with the square of the number of steps.
//
// So the release of a run is delayed if the run waits again and was woken soon after its last
// release. Its notifications then reach this worker, which reads the inbox and continues from
// memory. The run stays owned as during execution: its events are committed at once, its timers
// fire, and if the worker dies, the run is recovered like all others. The run leaves at once when
// the worker stops or has to execute a quarantined run. The release is not delayed if the run holds
// resources that other runs may need: permits, capacity of the worker's local limits, or scarce
// slots.

// releaseDelay is the maximum time between a release and a wake for the wake to count as soon. It
// is also how long the release of an idle run is delayed.
const releaseDelay = 250 * time.Millisecond

// releaseDelayed is the state that decides whether the release of a waiting run is delayed.
type releaseDelayed struct {
	soon  bool      // whether the run was woken soon after its release
	moved time.Time // when the run was woken, or when its last commit with events was made
	until time.Time // when the delayed release takes place; zero if the release is not delayed
}

// wake records that a run which was given back at the time left was claimed at the time now.
func (l *releaseDelayed) wake(left, now time.Time) {
	l.soon, l.moved = now.Sub(left) < releaseDelay, now
}

// stays decides whether the release of the run by the given effect is delayed.
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

// roomy reports whether a waiting run may keep its slot because slots are not scarce.
func (r *runs) roomy(in *inputs, partition int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns.now.Load() == nil && !r.behind[partition] && 2*r.occupied() <= r.cfg.Runs && r.cfg.AtOnce[in.queue] == 0 && len(in.uses) == 0
}
