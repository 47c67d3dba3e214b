// Package runs_test proves what runs promise to those who start, watch, stop and repeat them, through clients and workers, on every store.
package runs_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
