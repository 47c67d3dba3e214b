package pairs_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

var (
	printTable = flag.Bool("pairs.table", false, "print the table of all cells")
	long       = flag.Bool("pairs.long", false, "judge all cells on every store, and two commands in turn")
	short      = flag.Bool("pairs.short", false, "judge all cells in memory")
	stores     = flag.Bool("pairs.stores", false, "judge some cells on every store")
	seed       = flag.Int64("pairs.seed", 1, "of the pairs of commands that the long version chooses")
	onlyScene  = flag.String("pairs.scene", "", "judge the scenes whose names contain this")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onRequest skips a test of cells unless a flag asks for it: the rows of owed_test.go are of a certain state of the code, and are brought up to
// date with it by those who run make pairs.
func onRequest(t *testing.T) {
	t.Helper()
	if !*short && !*stores && !*long {
		t.Skip("cells are judged by make pairs, or with -pairs.short")
	}
}
