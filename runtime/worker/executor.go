package worker

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// runnable is a run that has something to do.
type runnable interface {
	// execute handles what was posted to it until there is no more.
	execute(e *executor)
	// shown returns the side of it that others see.
	shown() *inputs
}

// executors run the code of runs.
type executors struct {
	ready *queue[runnable]

	mu  sync.Mutex
	all []*executor
}

// start starts another one.
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

// forgetReplaced forgets those that were replaced and have returned.
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

// executor is a goroutine that runs the code of runs, one at a time. The code
// runs on coroutines that this goroutine drives: runtime.LockOSThread in the
// users' code must not meet a goroutine of theirs.
type executor struct {
	ready    *queue[runnable]
	pool     replay.Pool
	done     chan struct{}
	replaced atomic.Bool // another one has taken its place
	reported bool        // that it does not come back; belongs to the watchdog
	// busy is when the executor went into users' code, in nanoseconds since
	// 1970; 0: it is not there.
	busy atomic.Int64
	run  atomic.Pointer[inputs]
}

func (e *executor) loop() {
	defer close(e.done)
	defer e.pool.Close()
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

// inUserCode marks the time during which users' code may be running.
func (e *executor) inUserCode(f func()) {
	e.busy.Store(time.Now().UnixNano())
	defer e.busy.Store(0)
	f()
}
