package worker

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/runloop"
)

// runnable is a run loop as an executor uses it.
type runnable interface {
	// execute handles posted inputs until none are left.
	execute(e *executor)
	// shown returns the part of the run loop that other goroutines use.
	shown() *inputs
}

// executors are the goroutines that run the code of runs.
type executors struct {
	ready *queue[runnable]

	mu  sync.Mutex
	all []*executor
}

func (s *executors) start() {
	e := &executor{ready: s.ready, done: make(chan struct{})}
	s.mu.Lock()
	s.all = append(s.all, e)
	s.mu.Unlock()
	go e.loop()
}

func (s *executors) list() []*executor {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all)
}

// forgetReplaced drops replaced executors whose goroutines have ended.
func (s *executors) forgetReplaced() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = slices.DeleteFunc(s.all, func(e *executor) bool {
		select {
		case <-e.done:
			return e.replaced.Load()
		default:
			return false
		}
	})
}

// executor is a goroutine that runs the code of runs, one at a time. The code runs on coroutines
// that this goroutine resumes. So runtime.LockOSThread in user code affects none of the program's
// own goroutines.
type executor struct {
	ready    *queue[runnable]
	memory   runloop.Memory
	done     chan struct{}
	replaced atomic.Bool // whether another executor has taken its place
	// The following are used only by the watchdog.
	reported bool      // whether it has reported that the user code does not return
	converts bool      // whether the code of the run was encoding or decoding a value
	examine  time.Time // when converts must be determined again
	// busy is the time at which the executor entered user code, in nanoseconds since 1970. It is 0
	// outside of user code.
	busy atomic.Int64
	run  atomic.Pointer[inputs]
}

func (e *executor) loop() {
	defer close(e.done)
	defer e.memory.Close()
	for !e.replaced.Load() {
		r, ok := e.ready.pop()
		if !ok {
			return
		}
		e.run.Store(r.shown())
		r.execute(e)
		e.run.Store(nil)
	}
}

// enter marks the executor as busy in user code, and leave ends that.
func (e *executor) enter() { e.busy.Store(time.Now().UnixNano()) }
func (e *executor) leave() { e.busy.Store(0) }

// queue is a FIFO queue. An item is in the queue at most once.
type queue[T any] struct {
	mu     sync.Mutex
	cond   *sync.Cond
	items  []T // the queue consists of the items from head on
	head   int
	popped uint64 // number of items that were removed
	closed bool
}

func newQueue[T any]() *queue[T] {
	q := &queue[T]{}
	q.cond = sync.NewCond(&q.mu)
	return q
}

func (q *queue[T]) push(v T) {
	q.mu.Lock()
	if len(q.items) == cap(q.items) && 2*q.head > len(q.items) { // more than half of the slice is free space before head
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	q.items = append(q.items, v)
	q.mu.Unlock()
	q.cond.Signal()
}

// pop removes the first item. It waits if the queue is empty, and reports false once the queue is
// closed.
func (q *queue[T]) pop() (v T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head == len(q.items) && !q.closed {
		q.cond.Wait()
	}
	if q.head == len(q.items) {
		return v, false
	}
	var none T
	v, q.items[q.head] = q.items[q.head], none
	q.popped++
	if q.head++; q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	}
	return v, true
}

// waiting reports whether the queue has an item.
func (q *queue[T]) waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.head < len(q.items)
}

// beat returns a number that changes when an item is removed. It is odd while an item waits.
func (q *queue[T]) beat() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.head < len(q.items) {
		return 2*q.popped + 1
	}
	return 2 * q.popped
}

func (q *queue[T]) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cond.Broadcast()
}
