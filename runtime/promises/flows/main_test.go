// Package flows_test proves the promises to workflow code, through clients and workers, on every
// store.
package flows_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
