// Package runs_test proves the promises about starting, following, stopping and rerunning runs,
// through clients and workers, on every store.
package runs_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
