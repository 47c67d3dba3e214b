package worker

import (
	"runtime"
	"testing"
)

// A stopping worker posts to every run loop and then closes the queue. If post returned while
// another goroutine had marked the run loop as scheduled but not queued it yet, no executor would
// ever handle it, and its coroutines would leak.
func TestPost_NobodySeesARunLoopThatIsScheduledAndNotInTheQueue(t *testing.T) {
	q := newQueue[runnable]()
	tk := newRunLoop(&env{}, &loopParts{ready: q}, "wrun_1")
	q.mu.Lock() // the first poster blocks here
	first := make(chan struct{})
	go func() {
		tk.post(input{kind: inputTick})
		close(first)
	}()
	for range 1_000_000 {
		if !tk.mu.TryLock() {
			break // the second poster has to wait as well
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
