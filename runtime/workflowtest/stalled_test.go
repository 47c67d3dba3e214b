package workflowtest

import (
	"testing"
)

const trace = `goroutine 7 [running]:
github.com/flowgen/flowgen/runtime/workflowtest.goroutines(0x1)
	/src/runtime/workflowtest/stalled.go:10 +0x1

goroutine 8 [select, 2 minutes]:
example.com/shop.(*Shop).ship({0x1, 0x2})
	/src/shop/shop.go:20 +0x1
github.com/flowgen/flowgen/runtime/shim.Handle[...].func1({0x1})
	/src/runtime/shim/step.go:30 +0x1
github.com/flowgen/flowgen/runtime/workflowtest.(*incarnation).execute(0x1)
	/src/runtime/workflowtest/attempt.go:40 +0x1
created by github.com/flowgen/flowgen/runtime/worker.(*task).launch in goroutine 1
	/src/runtime/worker/attempt.go:50 +0x1

goroutine 9 [select]:
github.com/flowgen/flowgen/runtime/worker.(*streamWriter).write(0x1)
	/src/runtime/worker/streamwriter.go:10 +0x1
example.com/shop.(*Shop).ship({0x1, 0x2})
	/src/shop/shop.go:20 +0x1
github.com/flowgen/flowgen/runtime/shim.Handle[...].func1({0x1})
	/src/runtime/shim/step.go:30 +0x1
created by github.com/flowgen/flowgen/runtime/worker.(*task).launch in goroutine 1
	/src/runtime/worker/attempt.go:50 +0x1

goroutine 10 [IO wait]:
internal/poll.runtime_pollWait(0x1, 0x72)
	/go/src/runtime/netpoll.go:345 +0x85
example.com/shop.(*Shop).ship({0x1, 0x2})
	/src/shop/shop.go:20 +0x1

goroutine 11 [chan receive]:
github.com/flowgen/flowgen/runtime/worker_test.step({0x1, 0x2})
	/src/runtime/worker/stream_test.go:20 +0x1
github.com/flowgen/flowgen/runtime/shim.Handle[...].func1({0x1})
	/src/runtime/shim/step.go:30 +0x1

goroutine 13 [sync.Mutex.Lock]:
internal/sync.(*Mutex).lockSlow(0x1)
	/go/src/internal/sync/mutex.go:100 +0x1
sync.(*Mutex).Lock(...)
	/go/src/sync/mutex.go:46
github.com/flowgen/flowgen/runtime/workflowtest.(*incarnation).ended(0x1)
	/src/runtime/workflowtest/attempt.go:60 +0x1
github.com/flowgen/flowgen/runtime/workflowtest.(*incarnation).execute(0x1)
	/src/runtime/workflowtest/attempt.go:40 +0x1
`

func TestGoroutines_StepWaitsOnlyInItsOwnCode(t *testing.T) {
	d := parseGoroutines([]byte(trace))
	for id, want := range map[goroutineID]bool{"7": false, "8": true, "9": false, "10": false, "11": true, "13": false} {
		if got := d.blocked(id); got != want {
			t.Errorf("goroutine %s waits in its own code: %v, want %v", id, got, want)
		}
	}
	if d.working {
		t.Error("another goroutine works, want that only the caller does")
	}
	if d = parseGoroutines([]byte(trace + "\ngoroutine 12 [runnable]:\nmain.main()\n\t/src/main.go:1 +0x1\n")); !d.working {
		t.Error("no other goroutine works, want that goroutine 12 does")
	}
}

func TestGoroutines_FindsTheCaller(t *testing.T) {
	release, ids := make(chan struct{}), make(chan goroutineID)
	go func() {
		ids <- currentGoroutine()
		<-release
	}()
	id := <-ids
	defer close(release)
	if id == currentGoroutine() || id == "" {
		t.Fatalf("got goroutine %q from another goroutine than %q", id, currentGoroutine())
	}
	for !goroutines().blocked(id) { // until the goroutine waits for the channel
	}
}
