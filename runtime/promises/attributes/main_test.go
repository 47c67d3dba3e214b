// Package attributes_test proves the promises about the attributes of runs, through clients and
// workers, on every store.
package attributes_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
