package worker

import (
	"runtime"
	"testing"

	"github.com/flowgen/flowgen/runtime/internal/runloop"
)

// TestPost_NobodySeesARunLoopThatIsScheduledAndNotInTheQueue proves that post returns only when the
// run loop is in the queue. A stopping worker posts to every run loop and then closes the queue. If
// another goroutine had marked the loop as scheduled without queueing it, no executor would handle
// the loop, and its coroutines would leak.
func TestPost_NobodySeesARunLoopThatIsScheduledAndNotInTheQueue(t *testing.T) {
	q := newQueue[runnable]()
	tk := newRunLoop(&env{}, &loopParts{ready: q}, "wrun_1", nil)
	q.mu.Lock() // the first poster blocks here
	first := make(chan struct{})
	go func() {
		tk.post(runloop.Input{Kind: runloop.Due})
		close(first)
	}()
	for range 1_000_000 {
		if !tk.mu.TryLock() {
			break // the second poster must wait as well
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
	if got, _ := q.pop(); got.shown() != tk {
		t.Error("the run loop is not in the queue")
	}
}
