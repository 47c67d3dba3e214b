package memstore

// timers is a heap of runs, sorted by a time, then by ID. The heap stores the times, because they
// are compared far more often than the runs are read. Each run contains its index, so that a
// message can remove it without a search. A run is in at most one heap: the due times while it is
// parked, and the purge times after its end.
type timers []timer

type timer struct {
	at  int64
	run *run
}

// first returns the run with the earliest time, or nil if the heap is empty.
func (t timers) first() *run {
	if len(t) == 0 {
		return nil
	}
	return t[0].run
}

// next returns the earliest time, or 0 if the heap is empty.
func (t timers) next() int64 {
	if len(t) == 0 {
		return 0
	}
	return t[0].at
}

func (t *timers) add(r *run, at int64) {
	r.timer = int32(len(*t))
	*t = append(*t, timer{at, r})
	t.up(int(r.timer))
}

// remove removes a run that is in the heap.
func (t *timers) remove(r *run) {
	i, last := int(r.timer), len(*t)-1
	t.swap(i, last)
	(*t)[last] = timer{}
	*t = (*t)[:last]
	if i < last {
		t.down(i)
		t.up(i)
	}
}

func (t timers) up(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if !t.less(i, parent) {
			return
		}
		t.swap(i, parent)
		i = parent
	}
}

func (t timers) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(t) {
			return
		}
		if right := child + 1; right < len(t) && t.less(right, child) {
			child = right
		}
		if !t.less(child, i) {
			return
		}
		t.swap(i, child)
		i = child
	}
}

func (t timers) less(i, j int) bool {
	if t[i].at != t[j].at {
		return t[i].at < t[j].at
	}
	return t[i].run.id < t[j].run.id
}

func (t timers) swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].run.timer, t[j].run.timer = int32(i), int32(j)
}
