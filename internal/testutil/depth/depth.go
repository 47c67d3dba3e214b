// Package depth selects how much tests do. Tests that take long execute a sample of their cases in
// make test, and all of them in make test-all.
package depth

import (
	"fmt"
	"os"
	"sync"
	"testing"
)

// Full reports whether tests execute all of their cases. The Makefile sets the variable.
func Full() bool { return os.Getenv("FLOWTEST_FULL") != "" }

// NeedFull skips a test that only make test-all executes.
func NeedFull(t testing.TB) {
	t.Helper()
	if !Full() {
		t.Skip("only make test-all executes it: set FLOWTEST_FULL=1")
	}
}

// Stride returns 1 if tests execute all of their cases, and n otherwise. A test that executes every
// n-th case in make test uses it.
func Stride(n int) int {
	if Full() {
		return 1
	}
	return n
}

// Sample returns all cases if tests execute all of their cases. Otherwise it returns every n-th one,
// beginning with the first.
func Sample[T any](cases []T, n int) []T {
	var sample []T
	for i := 0; i < len(cases); i += Stride(n) {
		sample = append(sample, cases[i])
	}
	return sample
}

// EachEvent executes a subtest for each event of a log with the numbers first to last, or for every
// n-th one in make test. A subtest usually kills a process after the event. Four subtests are executed
// at once, because the processes wait most of the time.
func EachEvent(t *testing.T, first, last, n int, test func(t *testing.T, event int)) {
	t.Helper()
	var all sync.WaitGroup
	defer all.Wait()
	slots := make(chan struct{}, 4)
	for event := first; event <= last; event += Stride(n) {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			t.Run(fmt.Sprintf("event %d", event), func(t *testing.T) { test(t, event) })
		})
	}
}
