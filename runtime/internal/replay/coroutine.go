package replay

import (
	"fmt"
	"iter"
	"runtime"
	"runtime/debug"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/stack"
)

// coroutine runs functions one after the other on its own stack. The driver resumes it and the
// function yields; only one of the two runs at a time. A resume and a yield cost about 60 ns and no
// allocation.
type coroutine struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool

	job    func()
	idle   bool   // the last job has ended
	dying  bool   // the job is being unwound by exit
	crash  *crash // set if the last job did not return
	exited bool   // the last job called runtime.Goexit, which has ended the coroutine's goroutine
}

// crash describes how a job ended that did not return.
type crash struct {
	value any
	text  string
	stack []byte
}

// killed is the panic value that passes from the root of an exited coroutine to resume. It must be
// a panic: iter.Pull passes a Goexit on to the caller of next, which would end the driver's
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
			c.job, c.idle = nil, true
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return c
}

// run executes the job. A panic of the job ends here. A Goexit cannot be stopped and ends the
// coroutine, whatever the deferred calls did.
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

// call executes the job and records how it ended. If the job ends by Goexit, recovering the panic
// of a deferred call does not stop that.
func (c *coroutine) call() {
	returned := false
	defer func() {
		if returned {
			return
		}
		r := recover()
		if c.dying {
			return // a panic of a deferred call has no effect any more
		}
		// This is the stack of the panic or Goexit: nothing of it is unwound yet.
		c.crash = &crash{value: r, text: "runtime.Goexit was called", stack: debug.Stack()}
		if r != nil {
			c.crash.text = fmt.Sprint(r) // may call user code, which belongs on the coroutine
		}
	}()
	c.job()
	returned = true
}

// resume runs the job until it yields or ends, and reports whether it has ended.
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

// suspend returns control to the driver. It must be called on the coroutine.
func (c *coroutine) suspend() { c.yield(struct{}{}) }

// exit unwinds the coroutine from within: deferred calls run, recover returns nil, and user code
// cannot stop it. User code could recover a sentinel panic and would then continue in a wrong
// state.
func (c *coroutine) exit() {
	c.dying = true
	runtime.Goexit()
}

// Pool keeps finished coroutines, and buffers for new events, for the next run, because creating a
// coroutine costs more than running a short job. It belongs to one executor goroutine. The zero
// Pool is ready for use; a nil Pool keeps nothing.
type Pool struct {
	free    []*coroutine
	buffers [][]event.Event // empty
}

// poolSize bounds the coroutines, of about 5 KB each, and the event buffers, of 1 KB each, that a
// Pool keeps.
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

// put takes back a coroutine whose job has ended.
func (p *Pool) put(c *coroutine) {
	c.crash = nil
	if c.exited {
		return // its goroutine has ended
	}
	if p == nil || len(p.free) >= poolSize {
		c.stop()
		return
	}
	p.free = append(p.free, c)
}

// buffer returns an empty buffer for the new events of a run.
func (p *Pool) buffer() []event.Event {
	if p == nil || len(p.buffers) == 0 {
		return make([]event.Event, 0, usualEvents)
	}
	b := p.buffers[len(p.buffers)-1]
	p.buffers[len(p.buffers)-1] = nil
	p.buffers = p.buffers[:len(p.buffers)-1]
	return b
}

// keepBuffer takes back an empty buffer.
func (p *Pool) keepBuffer(b []event.Event) {
	if p != nil && cap(b) == usualEvents && len(p.buffers) < poolSize {
		p.buffers = append(p.buffers, b)
	}
}

// Close ends the coroutines of the pool. A coroutine that is not ended leaks.
func (p *Pool) Close() {
	for _, c := range p.free {
		c.stop()
	}
	p.free, p.buffers = nil, nil
}
