package worker

import (
	"runtime"
	"testing"
)

// A worker that stops posts to every task and then closes the queue. If a task was
// scheduled by somebody who has not put it into the queue yet, nobody would ever come
// to it, and its coroutines would stay for ever.
func TestPost_NobodySeesATaskThatIsScheduledAndNotInTheQueue(t *testing.T) {
	w := &Worker{}
	w.queue.init()
	tk := &task{w: w}
	w.queue.mu.Lock() // the first who posts is held up
	first := make(chan struct{})
	go func() {
		tk.post(input{kind: inputTick})
		close(first)
	}()
	for range 1_000_000 {
		if !tk.mu.TryLock() {
			break // whoever posts next has to wait, too
		}
		scheduled := tk.scheduled
		tk.mu.Unlock()
		if scheduled {
			t.Error("the task is scheduled, and not in the queue")
			break
		}
		runtime.Gosched()
	}
	w.queue.mu.Unlock()
	<-first
	if w.queue.pop() != tk {
		t.Error("the task is not in the queue")
	}
}
