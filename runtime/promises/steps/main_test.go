// Package steps_test proves the promises of steps, through clients and workers, on every store.
package steps_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
