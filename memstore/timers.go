package memstore

// timers is a heap of runs by a time, the earliest first; runs of one time by
// their id. The time stands beside the run because the heap is compared far more
// often than it is read, and each run knows where it stands, so that a message
// that wakes it need not search. A run is in one heap at most: while it is
// parked in that of the due times, once it has ended in that of the purges.
type timers []timer

type timer struct {
	at  int64
	run *run
}

// first returns the run whose time comes first, or nil.
func (t timers) first() *run {
	if len(t) == 0 {
		return nil
	}
	return t[0].run
}

// next returns the earliest time, or 0.
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

// remove takes out a run that is there.
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
