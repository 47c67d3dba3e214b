// Package others_test proves the promises about runs that read from other runs, through clients and
// workers, on every store.
package others_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
