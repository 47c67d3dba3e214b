package flowcheck

import (
	"go/token"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/depth"
)

func TestGEN4_OtherPeoplesModulesHaveNoReport(t *testing.T) {
	all, err := loadAll()
	if err != nil {
		t.Fatal(err)
	}
	modules := all.only(isOthers)
	if depth.Full() && len(modules.packages) < 50 || len(modules.packages) < 20 {
		t.Errorf("only %d packages are judged", len(modules.packages))
	}
	known := make(facts)
	for _, p := range modules.packages {
		fset := token.NewFileSet()
		files, err := parse(p, fset, nil)
		if err != nil {
			t.Fatal(err)
		}
		reports, err := known.analyze(p, fset, files)
		if err != nil {
			t.Errorf("%s: %v", p.PkgPath, err)
		}
		for _, d := range reports {
			t.Errorf("%s: %s", fset.Position(d.Pos), d.Message)
		}
	}
	clocks := 0
	for key, fact := range known {
		if e, isEffects := fact.(*Effects); isEffects && key.pkg == "github.com/redis/go-redis/v9" {
			for _, effect := range e.List {
				if effect.Rule == "clock" {
					clocks++
				}
			}
		}
	}
	if clocks == 0 {
		t.Error("nothing in go-redis reads the clock")
	}
	t.Logf("%d packages, %d facts, %d functions of go-redis read the clock", len(modules.packages), len(known), clocks)
}
