// Package pins_test proves the promises about runs that are pinned to builds: which build a run
// gets, that it stays there, and when it moves.
package pins_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
