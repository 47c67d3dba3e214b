package workflowtest

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// A step that waits for the end of its context waits for virtual time or for the workflow: nothing
// else can end the wait. Such a step is stalled, and time advances without it. A call of Done of
// the context does not prove that the step waits: the code may have checked the context and
// continued, slowly if the machine is busy, or may be inside a call of the engine, such as a write
// to a stream, that ends by itself. If time advanced then, the attempt's timeout could end a step
// that is working. Therefore the current state of the step's goroutine decides.

// patient is how long other running goroutines of the process may prevent a step from being
// classified as stalled, because the step may wait for one of them. It is much longer than they
// need for that, but parallel tests may run indefinitely.
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

// stillStalled marks stalled steps that have continued as running, and reports whether there were
// none.
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

// goroutineID is the number of a goroutine, as printed in stack traces.
type goroutineID string

// currentGoroutine returns the number of the calling goroutine.
func currentGoroutine() goroutineID {
	var b [64]byte
	id, _, _ := header(b[:runtime.Stack(b[:], false)])
	return id
}

// goroutineDump is a summary of the stacks of all goroutines of the process.
type goroutineDump struct {
	waiting map[goroutineID]bool // goroutines that wait; true: in the user's code
	working bool                 // a goroutine other than the caller is running or runnable
}

func (d *goroutineDump) blocked(id goroutineID) bool { return d.waiting[id] }

// goroutines examines all goroutines. It stops the world briefly.
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

// parseGoroutines parses a stack trace of all goroutines, the first of which is the caller.
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

// header parses the first line of a stack: goroutine 7 [select, 2 minutes]:.
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

// inUserCode reports whether a goroutine is in the code of a step rather than in the engine: the
// code has neither called into the engine nor returned. The outermost functions belong to the
// engine, which called the code.
func inUserCode(stack []byte) bool {
	lines := strings.Split(string(stack), "\n")
	user := false
	for i := (len(lines)-1)/2*2 - 1; i > 0; i -= 2 { // from the outermost function
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

// mainModule returns the module whose tests run; empty: unknown.
var mainModule = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Path
	}
	return ""
})

// calledByUser reports whether the caller of calledByUser was called by code of the module under
// test, rather than by a library.
func calledByUser() bool {
	var pcs [8]uintptr
	f, _ := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])]).Next()
	if m := mainModule(); m != "" && !strings.HasPrefix(f.Function, m) {
		return false
	}
	return !ofEngine(f.Function, f.File) && ofUser(f.Function)
}

// enginePackages is the prefix of the names of functions of the runtime.
const enginePackages = "github.com/flowgen/flowgen/runtime/"

// ofEngine reports whether a function, given by its name and its position or file, belongs to the
// packages that a step calls into. Their tests count as user code.
func ofEngine(function, position string) bool {
	return strings.HasPrefix(function, enginePackages) && !strings.Contains(position, "_test.go")
}

// ofUser reports whether a function belongs to the module under test or to one of its dependencies,
// rather than to the standard library: the path of a module has a dot in its first element, except
// for modules that are not published.
func ofUser(function string) bool {
	if m := mainModule(); m != "" && (strings.HasPrefix(function, m+"/") || strings.HasPrefix(function, m+".")) {
		return true
	}
	first, _, nested := strings.Cut(function, "/")
	return nested && strings.Contains(first, ".") || strings.HasPrefix(function, "main.")
}
