package pairs_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var (
	printTable = flag.Bool("pairs.table", false, "print the table of all cells")
	long       = flag.Bool("pairs.long", false, "judge all cells on every store, and two commands in turn")
	stores     = flag.Bool("pairs.stores", false, "judge some cells of all scenes that are marked on every store, not of two")
	inMemory   = flag.Bool("pairs.cells", false, "judge all cells in memory, and two scenes on every store")
	seed       = flag.Int64("pairs.seed", 1, "of the scenes that are judged on every store, and of the second commands of the long version")
	onlyScene  = flag.String("pairs.scene", "", "judge the scenes whose names contain this")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onRequest skips a test of cells unless a flag asks for it: in one of five executions a scene does not come into its state in time, or
// another cell is judged while its run is still at work.
func onRequest(t *testing.T) {
	t.Helper()
	if !*inMemory && !*stores && !*long {
		t.Skip("cells are judged by make pairs, or with -pairs.cells")
	}
}
