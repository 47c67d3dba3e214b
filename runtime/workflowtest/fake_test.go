package workflowtest_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// fakeTB records the failures of a test instead of reporting them.
type fakeTB struct {
	testing.TB
	mu       sync.Mutex
	failures []string
	cleanups []func()
}

// observe runs a test and returns its failures.
func observe(t testing.TB, test func(t testing.TB)) string {
	t.Helper()
	f := &fakeTB{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, c := range slices.Backward(f.cleanups) {
				c()
			}
		}()
		test(f)
	}()
	<-done
	return strings.Join(f.failures, "\n")
}

func (f *fakeTB) Helper()             {}
func (f *fakeTB) Cleanup(c func())    { f.cleanups = append(f.cleanups, c) }
func (f *fakeTB) Log(...any)          {}
func (f *fakeTB) Logf(string, ...any) {}
func (f *fakeTB) Error(args ...any)   { f.fail(fmt.Sprint(args...)) }

func (f *fakeTB) fail(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failures = append(f.failures, text)
}

func (f *fakeTB) Errorf(format string, args ...any) { f.fail(fmt.Sprintf(format, args...)) }

func (f *fakeTB) Failed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.failures) > 0
}

func (f *fakeTB) FailNow() {
	f.fail("FailNow")
	runtime.Goexit()
}

func (f *fakeTB) Fatal(args ...any) {
	f.Error(args...)
	runtime.Goexit()
}

func (f *fakeTB) Fatalf(format string, args ...any) {
	f.Errorf(format, args...)
	runtime.Goexit()
}
