// Package depth selects how much tests do. Tests that take long execute a sample of their cases in
// make test, and all of them in make test-all.
package depth

import (
	"os"
	"testing"
)

// Full reports whether tests execute all of their cases. The Makefile sets the variable.
func Full() bool { return os.Getenv("FLOWGEN_TEST_FULL") != "" }

// NeedFull skips a test that only make test-all executes.
func NeedFull(t testing.TB) {
	t.Helper()
	if !Full() {
		t.Skip("only make test-all executes it: set FLOWGEN_TEST_FULL=1")
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
