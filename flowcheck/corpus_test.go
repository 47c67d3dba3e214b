package flowcheck

import (
	"flag"
	"go/token"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/depth"
)

var shuffles = flag.Int("shuffles", 5/depth.Stride(5), "how often the corpora are judged with files and declarations in another order")

// The number of programs without a fault, and the number of faults in all other programs.
const (
	cleanPrograms = 37
	seededFaults  = 158
)

func TestGEN4_TheCorporaAreJudgedRightInEveryOrder(t *testing.T) {
	c, err := loadCorpus()
	if err != nil {
		t.Fatal(err)
	}
	for round := range *shuffles + 1 {
		var r *rand.Rand
		if round > 0 {
			r = rand.New(rand.NewPCG(uint64(round), 1))
		}
		clean, seeded, found, wrong := c.judge(t, r)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
		if seeded != seededFaults || found != seededFaults || clean != cleanPrograms || wrong != 0 {
			t.Fatalf("round %d: seeded %d found %d clean %d false %d, want %d %d %d 0", round, seeded, found, clean, wrong, seededFaults, seededFaults, cleanPrograms)
		}
	}
	t.Logf("rules %d seeded %d found %d clean %d false 0, in %d orders", len(rules), seededFaults, seededFaults, cleanPrograms, *shuffles+1)
}

// judge checks each package once. If r is not nil, it shuffles the declarations in each package. It
// returns the number of programs without faults, the number of programs with faults, the number of
// faults found, and the number of wrong reports.
func (c *corpus) judge(t *testing.T, r *rand.Rand) (clean, seeded, found, wrong int) {
	t.Helper()
	known := make(facts)
	for _, p := range c.packages {
		fset := token.NewFileSet()
		files, err := parse(p, fset, r)
		if err != nil {
			t.Fatal(err)
		}
		reports, err := known.analyze(p, fset, files)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case !strings.Contains(p.PkgPath, "/testdata/"):
			continue
		case strings.Contains(p.PkgPath, "/testdata/clean/"):
			clean++
		case strings.Contains(p.PkgPath, "/testdata/seeded/"):
			seeded += len(wants(t, fset, files))
		}
		right, unexpected := compare(t, fset, files, reports)
		wrong += unexpected
		if strings.Contains(p.PkgPath, "/testdata/seeded/") {
			found += right
		}
	}
	return clean, seeded, found, wrong
}
