package worker

import (
	"container/list"

	"github.com/flowgen/flowgen/runtime/event"
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

// roomy reports whether a waiting run may keep its slot because slots are not scarce.
func (r *runs) roomy(in *inputs, partition int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns.now.Load() == nil && !r.behind[partition] && 2*r.occupied() <= r.cfg.Runs && r.cfg.AtOnce[in.queue] == 0 && len(in.uses) == 0
}
