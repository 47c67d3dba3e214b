package event

import (
	"container/heap"
	"time"
)

// dueHeap orders open entities by their due times. An entry is stale if its entity has ended or has
// another due time. A stale entry is dropped when it reaches the top.
type dueHeap []dueEntry

type dueEntry struct {
	at  time.Time
	ref uint64
}

func (h dueHeap) Len() int { return len(h) }

func (h dueHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].ref < h[j].ref
}

func (h dueHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *dueHeap) Push(x any) { *h = append(*h, x.(dueEntry)) }

func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	*h = (*h)[:last]
	return e
}

// schedule adds o to the heap if it has a due time. It removes stale entries when they are the
// majority. Otherwise entries of waits that ended long before their due times would accumulate.
func (f *LogState) schedule(o *Open) {
	if o.Due.IsZero() {
		return
	}
	heap.Push(&f.dues, dueEntry{o.Due, o.Ref})
	if len(f.dues) <= 2*f.open.Len()+16 {
		return
	}
	f.dues = f.dues[:0]
	for o := range f.open.All {
		if !o.Due.IsZero() {
			f.dues = append(f.dues, dueEntry{o.Due, o.Ref})
		}
	}
	heap.Init(&f.dues)
}

// nextDue returns the entity that is due first, or nil if no entity is due or the run has ended or
// is suspended.
func (f *LogState) nextDue() *Open {
	if f.Run.Terminal() || f.StandsStill() {
		return nil
	}
	for len(f.dues) > 0 {
		top := f.dues[0]
		if o := f.open.Get(top.ref); o != nil && o.Due.Equal(top.at) {
			return o
		}
		heap.Pop(&f.dues)
	}
	return nil
}

// Due returns the earliest time at which something in the run is due. It is zero if nothing is due,
// while the run is paused, and after it has ended. A held run is due when its hold expires, a
// delayed run at its start time, and a delayed rerun when its code continues.
func (f *LogState) Due() time.Time {
	if f.Held() {
		return Instant(f.CreatedAt.Add(f.Spec.Hold))
	}
	switch {
	case f.Run == StatePending && f.Paused:
		return f.StartBy()
	case f.Run == StatePending:
		return f.Spec.StartAt
	case f.Run == StateRunning && !f.Paused && !f.Delayed.IsZero():
		return f.Delayed
	}
	if o := f.nextDue(); o != nil {
		return o.Due
	}
	return time.Time{}
}

// StartBy returns the time at which a run fails if it has not begun. The period starts at the
// creation of the run, at its StartAt, or at its release if the run was held. StartBy returns the
// zero time if the run has begun, is held, or may begin at any time.
func (f *LogState) StartBy() time.Time {
	if f.Run != StatePending {
		return time.Time{}
	}
	return f.PermitsBy()
}

// PermitsBy returns the same time as StartBy, but also for a run that has begun. If another run
// takes the permits, the code of the run starts only after the permits were taken.
func (f *LogState) PermitsBy() time.Time {
	if f.Spec.StartWithin <= 0 || f.Held() {
		return time.Time{}
	}
	from := f.CreatedAt
	for _, t := range []time.Time{f.Spec.StartAt, f.releasedAt} {
		if t.After(from) {
			from = t
		}
	}
	return Instant(from.Add(f.Spec.StartWithin))
}

// DueBy returns the open entities that are due at t or earlier, ordered by due time and then by
// creation.
func (f *LogState) DueBy(t time.Time) []*Open {
	if len(f.dues) == 0 {
		return nil
	}
	var due []*Open
	for o := f.nextDue(); o != nil && !o.Due.After(t); o = f.nextDue() {
		if n := len(due); n == 0 || due[n-1] != o { // o may be in the heap twice with the same time
			due = append(due, o)
		}
		heap.Pop(&f.dues)
	}
	for _, o := range due {
		f.schedule(o)
	}
	return due
}
