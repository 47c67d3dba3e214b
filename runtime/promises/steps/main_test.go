// Package steps_test proves the promises about steps. Its tests use clients and workers on every
// store.
package steps_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
