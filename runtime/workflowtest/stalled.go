package workflowtest

import (
	"bytes"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

// Stalled steps: if a step waits for the end of its context, only virtual time or the workflow can
// end the wait. Such a step is stalled, and time advances without it.
//
// A call of Done of the context does not prove that the step waits. The code may have checked the
// context and continued, slowly if the machine is busy. It may also be inside a call of the engine
// that ends without virtual time, such as a write to a stream. If time advanced, the timeout of the
// attempt could end a step that works. Therefore the scheduler examines the state of the step's
// goroutine.

// patient is the maximum real time for which other running goroutines of the process prevent a step
// from being marked as stalled. The step may wait for one of them, which takes much less time. The time is
// limited because parallel tests may run for long.
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

// stillStalled finds stalled steps whose code has continued, and marks them as running. It reports
// whether there were none.
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

// goroutineID is the number of a goroutine in stack traces.
type goroutineID string

// currentGoroutine returns the number of the calling goroutine.
func currentGoroutine() goroutineID {
	var b [64]byte
	id, _, _ := header(b[:runtime.Stack(b[:], false)])
	return id
}

// goroutineDump is a summary of the stacks of all goroutines of the process.
type goroutineDump struct {
	waiting map[goroutineID]bool // the waiting goroutines; true: the wait is in code of the user
	working bool                 // a goroutine other than the calling one is running or runnable
}

func (d *goroutineDump) blocked(id goroutineID) bool { return d.waiting[id] }

// goroutines returns a summary of all goroutines. It stops the process briefly.
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

// parseGoroutines parses a stack trace of all goroutines. The first one is the calling goroutine.
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

// header parses the first line of a stack, for example "goroutine 7 [select, 2 minutes]:".
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

// inUserCode reports whether a goroutine is in the code of a step. It returns false if that code
// has called into the engine or has returned. The outermost functions of the stack belong to the
// engine, which called the code.
func inUserCode(stack []byte) bool {
	lines := strings.Split(string(stack), "\n")
	user := false
	for i := (len(lines)-1)/2*2 - 1; i > 0; i -= 2 { // from the outermost function inwards
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

// mainModule returns the path of the module whose tests run. It is empty if unknown.
var mainModule = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Path
	}
	return ""
})

// calledByUser reports whether the caller of calledByUser was called by code of the module under
// test. It returns false if a library called it.
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

// ofEngine reports whether a function belongs to the packages of the runtime. The function is given
// by its name and its position or file. Functions in tests of these packages count as code of the
// user.
func ofEngine(function, position string) bool {
	return strings.HasPrefix(function, enginePackages) && !strings.Contains(position, "_test.go")
}

// ofUser reports whether a function belongs to the module under test or to one of its dependencies,
// and not to the standard library. The path of a published module has a dot in its first element.
func ofUser(function string) bool {
	if m := mainModule(); m != "" && (strings.HasPrefix(function, m+"/") || strings.HasPrefix(function, m+".")) {
		return true
	}
	first, _, nested := strings.Cut(function, "/")
	return nested && strings.Contains(first, ".") || strings.HasPrefix(function, "main.")
}
