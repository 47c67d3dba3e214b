// Package stack grows the stacks of goroutines in advance and finds user functions in stack traces.
package stack

import (
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// Grow gives the goroutine a stack that suffices for most steps and workflows and their JSON. At
// the start of a goroutine there is almost nothing to copy. If the stack grew later, it would cost
// as much as the rest of an attempt.
func Grow() { frame(-1) }

// frame has a large stack frame, so calling it grows the stack. Grow calls it without using the
// frame, because the memory of an unused frame is not cleared.
//
//go:noinline
func frame(i int) byte {
	if i < 0 {
		return 0
	}
	var space [6 << 10]byte
	space[i] = 1
	return space[i/2]
}

// engine is the import path prefix of the runtime's packages.
var engine = strings.TrimSuffix(reflect.TypeFor[place]().PkgPath(), "internal/stack")

// place is a function call on a stack, with its position.
type place struct{ function, file, line string }

// IsUsers reports whether a function in the given file is user code. Code of the runtime and of the
// standard library is not, and neither is generated code. The runtime's own tests count as user
// code.
func IsUsers(function, file string) bool {
	switch {
	case function == "", standard(function, file):
		return false
	case strings.HasPrefix(function, engine):
		return strings.HasSuffix(file, "_test.go")
	}
	return !strings.HasSuffix(file, "flow_gen.go")
}

// standard reports whether a function belongs to the standard library.
func standard(function, file string) bool {
	if root := standardRoot(); root != "" {
		return strings.HasPrefix(file, root)
	}
	// The binary was built with -trimpath, so file names do not contain the root.
	path := packageOf(function)
	first, _, _ := strings.Cut(path, "/")
	return path != "main" && !strings.Contains(first, ".") &&
		!slices.ContainsFunc(modules(), func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
}

// standardRoot returns the directory of the standard library's files. It returns "" if the binary
// does not contain it.
var standardRoot = sync.OnceValue(func() string {
	f := runtime.FuncForPC(reflect.ValueOf(strings.Index).Pointer())
	file, _ := f.FileLine(f.Entry())
	root, _ := strings.CutSuffix(file, "strings/strings.go")
	return root
})

// modules returns the paths of the modules of the binary.
var modules = sync.OnceValue(func() (all []string) {
	if info, ok := debug.ReadBuildInfo(); ok {
		all = append(all, info.Main.Path)
		for _, m := range info.Deps {
			all = append(all, m.Path)
		}
	}
	return slices.DeleteFunc(all, func(m string) bool { return m == "" })
})

// packageOf returns the import path of a function's package.
func packageOf(function string) string {
	dir := strings.LastIndex(function, "/") + 1
	name, _, _ := strings.Cut(function[dir:], ".")
	return function[:dir] + name
}

// Origin returns the position at which user code panicked, as file:line. trace is the result of
// debug.Stack in a deferred call. Origin returns "" if the stack contains no user code.
func Origin(trace string) string {
	if p, ok := origin(trace); ok {
		return p.file + ":" + p.line
	}
	return ""
}

// Function returns the user function that panicked, at the position that Origin returns. For a
// function literal it returns the enclosing function. It returns "" if the stack contains no user
// code.
func Function(trace string) string {
	p, ok := origin(trace)
	if !ok {
		return ""
	}
	name := p.function
	for { // The suffix of a function literal is a number that depends on its position in the enclosing function.
		i := strings.LastIndexByte(name, '.')
		if i < 0 || strings.Trim(strings.TrimPrefix(name[i+1:], "func"), "0123456789") != "" {
			return name
		}
		name = name[:i]
	}
}

func origin(trace string) (place, bool) {
	lines := strings.Split(trace, "\n")
	// If a deferred call has panicked again, the first panic is the last in the trace.
	for i, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "panic(") {
			lines = lines[i+1:]
			break
		}
	}
	for i := 1; i < len(lines); i++ {
		p, ok := placeOf(lines[i-1], lines[i])
		if ok && IsUsers(p.function, p.file) {
			return p, true
		}
	}
	return place{}, false
}

// placeOf parses two lines of a stack trace: a call and its position.
func placeOf(call, at string) (place, bool) {
	at, indented := strings.CutPrefix(at, "\t")
	args := strings.LastIndex(call, "(")
	colon := strings.LastIndex(at, ":")
	if !indented || args < 0 || colon < 0 || strings.HasPrefix(call, "created by ") {
		return place{}, false
	}
	line, _, _ := strings.Cut(at[colon+1:], " ")
	return place{call[:args], at[:colon], line}, true
}
