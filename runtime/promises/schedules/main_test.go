// Package schedules_test proves what schedules are promised, through clients and workers, on every store.
package schedules_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
