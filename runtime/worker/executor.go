package worker

import (
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// executor is a goroutine that runs the code of runs, one at a time. The code
// runs on coroutines that this goroutine drives: runtime.LockOSThread in the
// users' code must not meet a goroutine of theirs.
type executor struct {
	w        *Worker
	pool     replay.Pool
	done     chan struct{}
	replaced atomic.Bool // another one has taken its place
	reported bool        // that it does not come back; belongs to the watchdog
	// busy is when the executor went into users' code, in nanoseconds since
	// 1970; 0: it is not there.
	busy atomic.Int64
	task atomic.Pointer[task]
}

func (w *Worker) startExecutor() {
	e := &executor{w: w, done: make(chan struct{})}
	w.mu.Lock()
	w.executors = append(w.executors, e)
	w.mu.Unlock()
	go e.loop()
}

func (e *executor) loop() {
	defer close(e.done)
	defer e.pool.Close()
	for !e.replaced.Load() {
		t := e.w.queue.pop()
		if t == nil {
			return
		}
		e.execute(t)
	}
}

// execute handles what has been posted to a task until there is no more.
func (e *executor) execute(t *task) {
	e.task.Store(t)
	defer e.task.Store(nil)
	t.exec = e
	if t.run != nil {
		t.run.SetPool(&e.pool) // another executor may have had the task before
	}
	var inputs []input
	for {
		inputs = t.takeInputs(inputs)
		if len(inputs) == 0 {
			return
		}
		if e.w.killed.Load() {
			t.forget() // what was posted comes too late
			continue
		}
		for i := range inputs {
			t.handle(&inputs[i])
		}
		t.advance()
		e.w.offerSlots()
	}
}

// inUserCode marks the time during which users' code may be running.
func (e *executor) inUserCode(f func()) {
	e.busy.Store(time.Now().UnixNano())
	defer e.busy.Store(0)
	f()
}
