package limits_test

import (
	"context"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

type crate struct {
	Owner *struct{ Name string }
	Tons  int
}

// TestCatalog_HasTheLimitsThatRunsUse proves that the catalogue lists the limits that each workflow
// and step uses. It lists no limits if their keys cannot be computed without an input.
func TestCatalog_HasTheLimitsThatRunsUse(t *testing.T) {
	crane, dock, memory := limit.New("catalog-crane", limit.Config{AtOnce: 2}), limit.NewKeyed[string]("catalog-dock", limit.Config{AtOnce: 1}), limit.NewLocal("catalog-memory")
	loads := flowtest.LimitedFlow[crate, int]("loads", func(c crate) []limit.Use {
		return []limit.Use{memory.Use(c.Tons + 1), crane.Use(1), dock.For("north").Use(1), dock.For("south").Use(1)}
	})
	owned := flowtest.LimitedFlow[crate, int]("owned", func(c crate) []limit.Use { return []limit.Use{dock.For(c.Owner.Name).Use(1)} })
	free := flowtest.Flow[crate, int]("free")
	weigh := flowtest.AStep[int, int]("weigh", shim.Policy{Uses: shim.Uses(func(int) []limit.Use { return []limit.Use{crane.Use(1)} })})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		code := func(workflow.Context, crate) (int, error) { return 0, nil }
		w.Work(worker.Config{}, flowtest.As(loads, code), flowtest.As(owned, code), flowtest.As(free, code), weigh.As(func(_ context.Context, n int) (int, error) { return n, nil }))
		want := map[string][]string{
			loads.Name(): {"catalog-crane", "catalog-dock", "catalog-memory"}, owned.Name(): nil, free.Name(): nil, event.StepRun(weigh.Name()): {"catalog-crane"},
		}
		got := map[string][]string{}
		for name, v := range w.Described(maps.Keys(want)) {
			got[name] = v.Limits
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("limits (-want +got):\n%s", diff)
		}
	})
}
