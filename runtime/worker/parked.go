package worker

import (
	"container/list"

	"github.com/flowgen/flowgen/runtime/event"
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
