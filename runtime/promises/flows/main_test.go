// Package flows_test proves the promises about workflow code: branches, messages, children,
// compensations, and changes of the code. Its tests use clients and workers on every store.
package flows_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
