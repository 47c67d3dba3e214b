// Package limits_test proves what graphs promise, through clients and workers, on every store.
package graphs_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
