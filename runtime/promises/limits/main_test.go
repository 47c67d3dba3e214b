// Package limits_test proves the promises about limits. Its tests use clients and workers on every
// store.
package limits_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
