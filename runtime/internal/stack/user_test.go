package stack_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/internal/stack"
)

// traceOf returns the stack of a panic in f.
func traceOf(f func()) (trace string) {
	defer func() {
		_ = recover()
		trace = string(debug.Stack())
	}()
	f()
	return ""
}

func TestOrigin_IsTheUsersLineAlsoWhenTheStandardLibraryPanics(t *testing.T) {
	_, file, line, _ := runtime.Caller(0)
	count := -1
	for name, c := range map[string]struct {
		f     func()
		after int // line of the panic, relative to the line of Caller
	}{
		"its own":          {func() { panic("here") }, 6},
		"in strings":       {func() { _ = strings.Repeat("x", count) }, 7},
		"called by slices": {func() { slices.SortFunc([]int{1, 2}, func(int, int) int { panic("here") }) }, 8},
		"repeated by a deferred call": {func() {
			defer func() { panic(recover()) }()
			panic("first")
		}, 11},
	} {
		if want, got := fmt.Sprintf("%s:%d", file, line+c.after), stack.Origin(traceOf(c.f)); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	if got := stack.Origin(traceOf((*thrower)(nil).throw)); got != thrown {
		t.Errorf("a method: got %s, want %s", got, thrown)
	}
	if got := stack.Origin("goroutine 1 [running]:\nruntime/debug.Stack()"); got != "" {
		t.Errorf("nobody's code: got %s", got)
	}
}

type thrower struct{}

// thrown is the position at which throw panics.
var thrown string

func (*thrower) throw() {
	_, file, line, _ := runtime.Caller(0)
	thrown = fmt.Sprintf("%s:%d", file, line+2)
	panic("a method")
}
