// Package others_test proves the promises about runs that read values and streams of other runs.
// Its tests use clients and workers on every store.
package others_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
