// Package machines_test proves the promises about state machines. Its tests use clients and workers
// on every store.
package machines_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
