package pairs_test

import (
	"flag"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
)

var (
	printTable  = flag.Bool("pairs.table", false, "print the table of all cells")
	long        = flag.Bool("pairs.long", false, "judge all cells on every store, and two commands in turn")
	stores      = flag.Bool("pairs.stores", false, "judge some cells of all scenes that are marked on every store, not of some that the seed chooses")
	seed        = flag.Int64("pairs.seed", 1, "of the scenes that are judged on every store, and of the second commands of the long version")
	onlyHosting = flag.String("pairs.hosting", "", "execute all scenes in this way, for example functions")
	onlyScene   = flag.String("pairs.scene", "", "judge the scenes whose names contain this")
)

func TestMain(m *testing.M) { redistest.Main(m) }
