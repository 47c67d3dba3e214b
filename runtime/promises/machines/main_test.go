// Package machines_test proves what state machines promise, through clients and workers, on
// every store.
package machines_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
