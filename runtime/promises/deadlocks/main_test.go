// Package deadlocks_test proves the promises about runs that can never continue. It also tests
// similar programs that can continue. Its tests use clients and workers on every store.
package deadlocks_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
