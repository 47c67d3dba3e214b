package worker

import "sync"

// queue holds the tasks that have something to do, each at most once.
type queue struct {
	mu     sync.Mutex
	cond   *sync.Cond
	tasks  []*task // from head on
	head   int
	closed bool
}

func (q *queue) init() { q.cond = sync.NewCond(&q.mu) }

func (q *queue) push(t *task) {
	q.mu.Lock()
	if len(q.tasks) == cap(q.tasks) && 2*q.head > len(q.tasks) { // there is room in front
		n := copy(q.tasks, q.tasks[q.head:])
		clear(q.tasks[n:])
		q.tasks, q.head = q.tasks[:n], 0
	}
	q.tasks = append(q.tasks, t)
	q.mu.Unlock()
	q.cond.Signal()
}

// pop waits for a task; nil means that the queue was closed.
func (q *queue) pop() *task {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.head == len(q.tasks) && !q.closed {
		q.cond.Wait()
	}
	if q.head == len(q.tasks) {
		return nil
	}
	t := q.tasks[q.head]
	q.tasks[q.head] = nil
	if q.head++; q.head == len(q.tasks) {
		q.tasks, q.head = q.tasks[:0], 0
	}
	return t
}

// waiting reports whether a task waits for an executor.
func (q *queue) waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.head < len(q.tasks)
}

func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cond.Broadcast()
}
