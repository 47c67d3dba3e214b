// Package pins_test proves the promises about runs that are pinned to builds: which build a run
// gets, that it stays there, and when it moves.
package pins_test

import (
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }
