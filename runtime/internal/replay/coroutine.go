package replay

import (
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/stack"
)

// coroutine runs functions one after the other on its own stack. The driver resumes it, and the
// function yields to the driver; only one of the two runs at a time. A resume and a yield together
// take about 60 ns and do not allocate.
type coroutine struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool

	job    func(*Branch)
	branch *Branch // argument of the job
	idle   bool    // whether the last job has ended
	dying  bool    // whether exit is unwinding the job
	crash  *crash  // how the last job ended; nil if it returned
	exited bool    // whether the last job called runtime.Goexit, which has ended the coroutine's goroutine
}

// crash describes the end of a job that did not return.
type crash struct {
	value any
	text  string
	stack []byte
}

// killed is the panic value that an exited coroutine passes from its root to resume. A Goexit
// cannot be used: iter.Pull passes it on to the caller of next, and it would end the driver's
// goroutine.
type killed struct{}

func newCoroutine() *coroutine {
	c := &coroutine{idle: true}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		markCoroutine()
		for c.job != nil {
			stack.Grow()
			c.run()
			c.job, c.branch, c.idle = nil, nil, true
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return c
}

// run executes the job. It recovers a panic of the job. A Goexit cannot be stopped and ends the
// coroutine, whatever the deferred calls do.
func (c *coroutine) run() {
	ended := false
	defer func() {
		if !ended {
			panic(killed{})
		}
	}()
	c.call()
	ended = true
}

// call executes the job and records how it ended. If the job ends by Goexit and a deferred call
// then panics, call recovers the panic, but the Goexit continues.
func (c *coroutine) call() {
	returned := false
	defer func() {
		if returned {
			return
		}
		r := recover()
		if c.dying {
			return // exit is unwinding the job, so a panic of a deferred call has no effect
		}
		// The stack is the stack of the panic or Goexit, because no frame was unwound before this
		// deferred call.
		c.crash = &crash{value: r, text: "runtime.Goexit was called", stack: debug.Stack()}
		if r != nil {
			c.crash.text = fmt.Sprint(r) // may call user code, which must run on the coroutine
		}
	}()
	c.job(c.branch)
	returned = true
}

// resume runs the job until it yields or ends. It reports whether the job has ended.
func (c *coroutine) resume() (ended bool) {
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if _, ok := r.(killed); !ok {
			panic(r)
		}
		c.exited, ended = true, true
	}()
	c.idle = false
	c.next()
	return c.idle
}

// suspend returns control to the driver. It must be called by code that runs on the coroutine.
func (c *coroutine) suspend() { c.yield(struct{}{}) }

// exit unwinds the coroutine from within. Deferred calls run, recover returns nil, and user code
// cannot stop the unwinding. A sentinel panic would not suffice, because user code could recover it
// and continue in an invalid state.
func (c *coroutine) exit() {
	c.dying = true
	runtime.Goexit()
}

// Pool keeps coroutines without a job and buffers for new events for the next run, because creating
// a coroutine costs more than running a short job. A Pool belongs to one executor goroutine. The
// zero Pool is ready for use. A nil Pool keeps nothing.
type Pool struct {
	free    []*coroutine
	buffers [][]event.Event // empty buffers
}

// poolSize bounds the number of coroutines and the number of event buffers that a Pool keeps. A
// coroutine takes about 5 KB, and a buffer 1 KB.
const poolSize = 256

func (p *Pool) get() *coroutine {
	if p == nil || len(p.free) == 0 {
		return newCoroutine()
	}
	c := p.free[len(p.free)-1]
	p.free[len(p.free)-1] = nil
	p.free = p.free[:len(p.free)-1]
	return c
}

// put adds a coroutine whose job has ended to the pool.
func (p *Pool) put(c *coroutine) {
	c.crash = nil
	if c.exited {
		return // the goroutine of the coroutine has ended
	}
	if p == nil || len(p.free) >= poolSize {
		c.stop()
		return
	}
	p.free = append(p.free, c)
}

// Buffer returns an empty buffer for events of a run. [Run.Reuse] returns it to the pool when the run
// leaves.
func (p *Pool) Buffer() []event.Event {
	if p == nil || len(p.buffers) == 0 {
		return make([]event.Event, 0, usualEvents)
	}
	b := p.buffers[len(p.buffers)-1]
	p.buffers[len(p.buffers)-1] = nil
	p.buffers = p.buffers[:len(p.buffers)-1]
	return b
}

// KeepBuffer clears a buffer that no run uses any longer, and adds it to the pool.
func (p *Pool) KeepBuffer(b []event.Event) {
	clear(b)
	p.keepBuffer(b[:0])
}

// keepBuffer adds an empty buffer to the pool, if it has the usual size.
func (p *Pool) keepBuffer(b []event.Event) {
	if p != nil && cap(b) == usualEvents && len(p.buffers) < poolSize {
		p.buffers = append(p.buffers, b)
	}
}

// Close ends the coroutines of the pool. Without Close they leak.
func (p *Pool) Close() {
	for _, c := range p.free {
		c.stop()
	}
	p.free, p.buffers = nil, nil
}
