package stack

import (
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
)

// engine is where the functions of the runtime start.
var engine = strings.TrimSuffix(reflect.TypeFor[place]().PkgPath(), "internal/stack")

// place is a function on a stack, and where it is.
type place struct{ function, file, line string }

// IsUsers reports whether a function of that file is the users' own: not the
// runtime's, the standard library's or one that was generated. The runtime's own tests
// are users, too.
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
	// The binary was built with -trimpath.
	path := packageOf(function)
	first, _, _ := strings.Cut(path, "/")
	return path != "main" && !strings.Contains(first, ".") &&
		!slices.ContainsFunc(modules(), func(m string) bool { return path == m || strings.HasPrefix(path, m+"/") })
}

// standardRoot is the folder of the standard library's files; empty if the binary does not
// tell.
var standardRoot = sync.OnceValue(func() string {
	f := runtime.FuncForPC(reflect.ValueOf(strings.Index).Pointer())
	file, _ := f.FileLine(f.Entry())
	root, _ := strings.CutSuffix(file, "strings/strings.go")
	return root
})

// modules are the paths of the modules of the binary.
var modules = sync.OnceValue(func() (all []string) {
	if info, ok := debug.ReadBuildInfo(); ok {
		all = append(all, info.Main.Path)
		for _, m := range info.Deps {
			all = append(all, m.Path)
		}
	}
	return slices.DeleteFunc(all, func(m string) bool { return m == "" })
})

// packageOf returns the path of a function's package.
func packageOf(function string) string {
	dir := strings.LastIndex(function, "/") + 1
	name, _, _ := strings.Cut(function[dir:], ".")
	return function[:dir] + name
}

// Origin returns where the users' code panicked, as file:line, from the stack that
// debug.Stack gave in a deferred call; empty if none of their code is on it.
func Origin(trace string) string {
	if p, ok := origin(trace); ok {
		return p.file + ":" + p.line
	}
	return ""
}

// Function returns the function of the users' code that has panicked, as Origin finds it: that
// which holds it, of one without a name. Empty if none is on the stack.
func Function(trace string) string {
	p, ok := origin(trace)
	if !ok {
		return ""
	}
	name := p.function
	for { // of a literal: its number is that of its place in the function
		i := strings.LastIndexByte(name, '.')
		if i < 0 || strings.Trim(strings.TrimPrefix(name[i+1:], "func"), "0123456789") != "" {
			return name
		}
		name = name[:i]
	}
}

func origin(trace string) (place, bool) {
	lines := strings.Split(trace, "\n")
	// A deferred call may have panicked again: what was first comes last.
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

// placeOf reads two lines of a stack: a call, and in the next one where it is.
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
