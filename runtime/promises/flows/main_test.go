// Package flows_test proves what the code of workflows is promised, through clients and workers, on every store.
package flows_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
