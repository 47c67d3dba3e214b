package replay

import (
	"reflect"
	"runtime"
	"strconv"
	"strings"
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

// modulePrefix is where frames of the runtime start; the users' code is the
// first that does not belong to it, to the standard library's coroutines, or to
// a generated file. The runtime's own tests are users, too.
var modulePrefix = strings.TrimSuffix(reflect.TypeFor[Run]().PkgPath(), "internal/replay")

func positionIn(pcs []uintptr) string {
	if len(pcs) == 0 {
		return ""
	}
	frames := runtime.CallersFrames(pcs)
	for {
		f, more := frames.Next()
		if isUsers(&f) {
			return f.File + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return ""
		}
	}
}

func isUsers(f *runtime.Frame) bool {
	switch {
	case f.Function == "", strings.HasPrefix(f.Function, "runtime."), strings.HasPrefix(f.Function, "iter."):
		return false
	case strings.HasPrefix(f.Function, modulePrefix):
		return strings.HasSuffix(f.File, "_test.go")
	}
	return !strings.HasSuffix(f.File, "flow_gen.go")
}
