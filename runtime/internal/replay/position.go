package replay

import (
	"cmp"
	"runtime"
	"strconv"

	"github.com/flowgen/flowgen/runtime/internal/stack"
)

// Trace is the top of a stack. Recording it is cheap, and it is resolved only for reports.
type Trace [12]uintptr

// Here returns the stack trace of its caller, without the innermost skip frames.
func Here(skip int) *Trace {
	t := &Trace{}
	runtime.Callers(2+skip, t[:])
	return t
}

// position returns the position of the user code in the trace, as file:line.
func (t *Trace) position() string {
	if t == nil {
		return ""
	}
	n := 0
	for n < len(t) && t[n] != 0 {
		n++
	}
	return positionIn(t[:n])
}

// here returns the position of the user code that is running.
func here() string {
	var pcs [64]uintptr
	return positionIn(pcs[:runtime.Callers(2, pcs[:])])
}

// position returns the position of the user code that runs in the branch. If the branch runs no
// user code, for example because its function is a generated step, it returns the position at which
// the branch was opened.
func (b *Branch) position() string { return cmp.Or(here(), b.opened.position()) }

func positionIn(pcs []uintptr) string {
	if len(pcs) == 0 {
		return ""
	}
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if stack.IsUsers(f.Function, f.File) {
			return f.File + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return ""
		}
	}
}
