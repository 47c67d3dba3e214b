package workflowtest

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// A step that waits for the end of its context waits for virtual time, or for the
// workflow: nothing else can end the wait. Such a step is stalled, and time goes on
// without it. That its code has asked for the end of the context once does not prove
// that it waits: it may have looked and be at work again, slowly if the machine is
// busy, or be inside a call of the engine, such as a write to a stream, that ends by
// itself. Time that passed then would let the attempt's timeout strike a step that
// works. So the current state of the goroutine of the step decides.

// patient is how long other goroutines of the process may keep a step from being
// taken for stalled: what the step waits for may come from one of them. It is far
// more than they need for that, but tests that run in parallel may work for ever.
const patient = 2 * time.Second

// findStalled marks the steps that wait for the end of their context.
func (c *scheduler) findStalled() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var asked []*execution
	for x := range c.executions {
		if x.phase == phaseRunning && x.done && x.ctx.Err() == nil && time.Since(x.since) >= c.env.options.patience {
			asked = append(asked, x)
		}
	}
	if len(asked) == 0 {
		return
	}
	all := goroutines()
	for _, x := range asked {
		if all.blocked(x.id) && (!all.working || time.Since(x.since) >= patient) {
			x.shift(phaseStalled)
		}
	}
}

// stillStalled puts steps that have gone on back to work, and reports whether there
// were none.
func (c *scheduler) stillStalled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	var stalled []*execution
	for x := range c.executions {
		if x.phase == phaseStalled {
			stalled = append(stalled, x)
		}
	}
	if len(stalled) == 0 {
		return true
	}
	still, all := true, goroutines()
	for _, x := range stalled {
		if !all.blocked(x.id) {
			x.since = time.Now()
			x.shift(phaseRunning)
			still = false
		}
	}
	return still
}

// goroutineID is the number of a goroutine, as stack traces print it.
type goroutineID string

// currentGoroutine returns the number of the goroutine that calls it.
func currentGoroutine() goroutineID {
	var b [64]byte
	id, _, _ := header(b[:runtime.Stack(b[:], false)])
	return id
}

// goroutineDump is a summary of the stacks of all goroutines of the process.
type goroutineDump struct {
	waiting map[goroutineID]bool // those that are blocked in code of the user
	working bool                 // another one than the caller runs, or could
}

func (d *goroutineDump) blocked(id goroutineID) bool { return d.waiting[id] }

// goroutines looks at all goroutines. It stops the world for a moment.
func goroutines() *goroutineDump {
	b := make([]byte, 1<<16)
	for {
		n := runtime.Stack(b, true)
		if n < len(b) {
			b = b[:n]
			break
		}
		b = make([]byte, 2*len(b))
	}
	return parseGoroutines(b)
}

// parseGoroutines reads a stack trace of all goroutines, the first of which is the
// caller.
func parseGoroutines(trace []byte) *goroutineDump {
	d := &goroutineDump{waiting: map[goroutineID]bool{}}
	for i, stack := range bytes.Split(trace, []byte("\n\n")) {
		id, state, ok := header(stack)
		if !ok {
			continue
		}
		switch state {
		case "running", "runnable":
			d.working = d.working || i > 0
		case "select", "chan receive", "chan send", "semacquire", "sync.WaitGroup.Wait", "sync.Cond.Wait", "sync.Mutex.Lock":
			d.waiting[id] = inUserCode(stack)
		}
	}
	return d
}

// header reads the first line of a stack: goroutine 7 [select, 2 minutes]:.
func header(stack []byte) (id goroutineID, state string, ok bool) {
	line, _, _ := bytes.Cut(stack, []byte("\n"))
	rest, ok := bytes.CutPrefix(line, []byte("goroutine "))
	if !ok {
		return "", "", false
	}
	number, rest, ok := bytes.Cut(rest, []byte(" ["))
	if !ok {
		return "", "", false
	}
	text, _, _ := bytes.Cut(rest, []byte("]"))
	text, _, _ = bytes.Cut(text, []byte(","))
	return goroutineID(number), string(text), true
}

// inUserCode reports whether a goroutine is in the code of a step, and not in the
// engine: neither has that code called it and is still there, nor has it returned. The
// outermost functions are those of the engine that have called the code.
func inUserCode(stack []byte) bool {
	lines := strings.Split(string(stack), "\n")
	user := false
	for i := (len(lines)-1)/2*2 - 1; i > 0; i -= 2 { // from the outermost function on
		function := lines[i]
		switch engine := ofEngine(function, lines[i+1]); {
		case engine && user:
			return false
		case !engine && !strings.HasPrefix(function, "created by ") && ofUser(function):
			user = true
		}
	}
	return user
}

// mainModule is the module whose tests run; empty: not known.
var mainModule = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Path
	}
	return ""
})

// calledByUser reports whether the method that calls it was called by code of the
// module under test, and not by a library that it uses.
func calledByUser() bool {
	var pcs [8]uintptr
	f, _ := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])]).Next()
	if m := mainModule(); m != "" && !strings.HasPrefix(f.Function, m) {
		return false
	}
	return !ofEngine(f.Function, f.File) && ofUser(f.Function)
}

// enginePackages begins the names of the functions of the runtime.
const enginePackages = "github.com/flowgen/flowgen/runtime/"

// ofEngine reports whether a function, whose position or file is given, belongs to
// the packages that a step calls into. Their tests are users like any other.
func ofEngine(function, position string) bool {
	return strings.HasPrefix(function, enginePackages) && !strings.Contains(position, "_test.go")
}

// ofUser reports whether a function is of the module under test or of one that it
// uses, and not of the standard library: the path of a module has a point in its first
// element, but for modules that are used nowhere else.
func ofUser(function string) bool {
	if m := mainModule(); m != "" && (strings.HasPrefix(function, m+"/") || strings.HasPrefix(function, m+".")) {
		return true
	}
	first, _, nested := strings.Cut(function, "/")
	return nested && strings.Contains(first, ".") || strings.HasPrefix(function, "main.")
}
