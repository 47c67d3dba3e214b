// Package graphs_test proves the promises about graphs. Its tests use clients and workers on every
// store.
package graphs_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
