package worker

import (
	"runtime"
	"testing"
)

// A worker that stops posts to every run loop and then closes the queue. If one was
// scheduled by somebody who has not put it into the queue yet, nobody would ever come
// to it, and its coroutines would stay for ever.
func TestPost_NobodySeesARunLoopThatIsScheduledAndNotInTheQueue(t *testing.T) {
	q := newQueue[runnable]()
	tk := newRunLoop(&env{}, &loopParts{ready: q}, "wrun_1")
	q.mu.Lock() // the first who posts is held up
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
			t.Error("the run loop is scheduled, and not in the queue")
			break
		}
		runtime.Gosched()
	}
	q.mu.Unlock()
	<-first
	if got, _ := q.pop(); got != tk {
		t.Error("the run loop is not in the queue")
	}
}
