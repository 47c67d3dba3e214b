// Package steps_test proves what steps promise, through clients and workers, on every store.
package steps_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
