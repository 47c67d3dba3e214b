package worker

import (
	"container/list"

	"github.com/flowgen/flowgen/runtime/event"
)

// own enters a task among those that are owned, where it may be already. It
// reports false if another task has the run.
func (w *Worker) own(t *task) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if other := w.tasks[t.id]; other != nil && other != t {
		return false
	}
	w.parked.remove(t)
	w.tasks[t.id] = t
	return true
}

// disown takes a task from those that are owned, unless it has been claimed
// again meanwhile, and keeps its memory if there is room.
func (w *Worker) disown(t *task, keep bool) {
	w.mu.Lock()
	var evicted []*task
	switch {
	case w.tasks[t.id] != t:
		keep = false // another task has the run
	case t.claimedAgain():
		keep = true // the claim that waits decides
	default:
		delete(w.tasks, t.id)
		if keep {
			evicted = w.parked.put(t)
		}
	}
	w.dismiss(t)
	w.checkIdle()
	w.mu.Unlock()
	for _, old := range evicted {
		old.post(input{kind: inputEvict})
	}
	if !keep {
		t.forget()
	}
	w.poke()
}

// checkIdle tells who waits for it that no run is left. It is called with the
// lock held.
func (w *Worker) checkIdle() {
	if !w.stopping.Load() || len(w.tasks) > 0 || w.releasing > 0 {
		return
	}
	select {
	case <-w.idle:
	default:
		close(w.idle)
	}
}

func (t *task) claimedAgain() bool {
	if t.next != nil {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.inputs {
		if t.inputs[i].kind == inputClaimed {
			return true
		}
	}
	return false
}

// parkedRuns keeps the memory of runs that wait, those that left last the
// longest. It is guarded by Worker.mu.
type parkedRuns struct {
	limit    int // branches
	branches int
	byID     map[event.RunID]*list.Element
	order    *list.List // of parkedRun, newest first
}

type parkedRun struct {
	t        *task
	branches int
}

func newParkedRuns(limit int) *parkedRuns {
	return &parkedRuns{limit: limit, byID: map[event.RunID]*list.Element{}, order: list.New()}
}

// put keeps a task and returns those that have to go for it.
func (p *parkedRuns) put(t *task) []*task {
	n := 1
	if t.run != nil {
		n = max(t.run.Branches(), 1)
	}
	p.byID[t.id] = p.order.PushFront(parkedRun{t, n})
	p.branches += n
	var evicted []*task
	for p.branches > p.limit {
		evicted = append(evicted, p.drop(p.order.Back()))
	}
	return evicted
}

func (p *parkedRuns) drop(e *list.Element) *task {
	r := p.order.Remove(e).(parkedRun)
	delete(p.byID, r.t.id)
	p.branches -= r.branches
	return r.t
}

// take returns the task of a run and no longer keeps it; nil if it was not kept.
func (p *parkedRuns) take(id event.RunID) *task {
	e := p.byID[id]
	if e == nil {
		return nil
	}
	return p.drop(e)
}

func (p *parkedRuns) remove(t *task) {
	if e := p.byID[t.id]; e != nil && e.Value.(parkedRun).t == t {
		p.drop(e)
	}
}

// all returns every task and keeps none.
func (p *parkedRuns) all() []*task {
	var all []*task
	for p.order.Len() > 0 {
		all = append(all, p.drop(p.order.Front()))
	}
	return all
}
