package replay

import (
	"iter"
	"runtime"
	"runtime/debug"
)

// coroutine runs functions one after the other on a stack of its own. The
// driver resumes it, the function yields; only one of the two runs at a time.
// A resume and a yield cost about 60 ns and no allocation.
type coroutine struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool

	job      func()
	begun    bool   // the job has been resumed
	idle     bool   // the last job has returned
	dying    bool   // the job is being unwound by exit
	panicked any    // what the last job panicked with
	stack    []byte // where
	exited   bool   // the last job called runtime.Goexit: the coroutine is gone
}

// killed travels from the root of a coroutine that exited to resume. It has to
// be a panic: iter.Pull hands a Goexit on to the caller of next, and would end
// the driver's goroutine.
type killed struct{}

func newCoroutine() *coroutine {
	c := &coroutine{idle: true}
	c.next, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		for c.job != nil {
			c.run()
			c.job, c.idle, c.begun = nil, true, false
			if !yield(struct{}{}) {
				return
			}
		}
	})
	return c
}

// run executes the job. A panic of the job ends here, with its stack; a Goexit
// cannot be stopped, and ends the coroutine.
func (c *coroutine) run() {
	returned := false
	defer func() {
		if returned {
			return
		}
		r := recover()
		if r != nil && !c.dying { // else a deferred call has panicked: the unwinding goes on
			c.panicked, c.stack = r, debug.Stack()
			return
		}
		panic(killed{})
	}()
	c.job()
	returned = true
}

// resume runs the job until it yields or ends, and reports whether it has ended.
func (c *coroutine) resume() (ended bool) {
	defer func() {
		if c.idle || c.exited {
			ended = true
		}
	}()
	defer func() {
		r := recover()
		if r == nil {
			return
		}
		if _, ok := r.(killed); !ok {
			panic(r)
		}
		c.exited = true
	}()
	c.idle, c.begun = false, true
	c.next()
	return false
}

// suspend gives control back to the driver. It is called on the coroutine.
func (c *coroutine) suspend() { c.yield(struct{}{}) }

// exit unwinds the coroutine from within: defers run, recover returns nil, and
// nothing can swallow it. A sentinel panic would be recovered by the user's
// code, which would then go on in a wrong state.
func (c *coroutine) exit() {
	c.dying = true
	runtime.Goexit()
}

// Pool keeps finished coroutines for the next run, because making one costs
// more than running a short job. It belongs to one executor goroutine. The zero
// Pool is ready for use.
type Pool struct {
	free []*coroutine
}

// poolSize bounds what a Pool keeps: about 5 KB each.
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
	c.panicked, c.stack = nil, nil
	if p == nil || c.exited || len(p.free) == poolSize {
		c.stop()
		return
	}
	p.free = append(p.free, c)
}

// Close ends the coroutines of the pool. A coroutine that is left alone stays
// for ever.
func (p *Pool) Close() {
	for _, c := range p.free {
		c.stop()
	}
	p.free = nil
}
