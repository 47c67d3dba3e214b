package replay

import (
	"runtime"
	"strconv"

	"github.com/flowgen/flowgen/runtime/internal/stack"
)

// trace is the upper end of a stack, cheap to take and read only for reports.
type trace [12]uintptr

// traceHere returns the trace of the caller's caller.
func traceHere() (t trace) {
	runtime.Callers(3, t[:])
	return t
}

// position returns the users' code in the trace, as file:line.
func (t *trace) position() string {
	n := 0
	for n < len(t) && t[n] != 0 {
		n++
	}
	return positionIn(t[:n])
}

// here returns the position of the users' code that is running.
func here() string {
	var pcs [64]uintptr
	return positionIn(pcs[:runtime.Callers(2, pcs[:])])
}

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
