package worker

import (
	"sync"
	"sync/atomic"
)

// slots bounds how many steps run at once. Run loops that need a slot wait in a queue.
type slots struct {
	most int
	free atomic.Int64

	mu   sync.Mutex
	line []*inputs
	in   map[*inputs]bool // the members of line, which is the queue
}

func newSlots(n int) *slots {
	s := &slots{most: n, in: map[*inputs]bool{}}
	s.free.Store(int64(n))
	return s
}

// acquire takes a slot for a step, or puts the run loop into the queue for one.
func (s *slots) acquire(run *inputs) bool {
	if s.free.Add(-1) >= 0 {
		return true
	}
	s.free.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free.Add(-1) >= 0 { // one was freed meanwhile
		return true
	}
	s.free.Add(1)
	if !s.in[run] {
		s.in[run] = true
		s.line = append(s.line, run)
	}
	return false
}

// offer notifies the first run loop in the queue that there are slots.
func (s *slots) offer() {
	if s.free.Load() <= 0 {
		return
	}
	s.mu.Lock()
	var next *inputs
	if len(s.line) > 0 && s.free.Load() > 0 {
		next, s.line = s.line[0], s.line[1:]
		delete(s.in, next)
	}
	s.mu.Unlock()
	if next != nil {
		next.post(input{kind: inputTick})
	}
}

// taken returns how many slots are taken.
func (s *slots) taken() int { return s.most - int(max(s.free.Load(), 0)) }

func (s *slots) release() {
	s.free.Add(1)
	s.offer()
}
