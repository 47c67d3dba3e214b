// Package machines_test proves the promises of state machines, through clients and workers, on
// every store.
package machines_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
