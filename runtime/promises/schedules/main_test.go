// Package schedules_test proves the promises about schedules. Its tests use clients and workers on
// every store.
package schedules_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
