package replay

import (
	"cmp"
	"runtime"
	"strconv"

	"github.com/flowgen/flowgen/runtime/internal/stack"
)

// Trace is the upper end of a stack, cheap to take and read only for reports.
type Trace [12]uintptr

// Here returns the trace of its caller, without so many functions between that and the
// users' code.
func Here(skip int) *Trace {
	t := &Trace{}
	runtime.Callers(2+skip, t[:])
	return t
}

// position returns the users' code in the trace, as file:line.
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

// here returns the position of the users' code that is running.
func here() string {
	var pcs [64]uintptr
	return positionIn(pcs[:runtime.Callers(2, pcs[:])])
}

// position returns the position of the users' code that runs in the branch. There is none
// where a generated step is the function of the branch: then it is that which has opened it.
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
