package graphs_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/generated/graphs"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestOPS2_TheCatalogueHasTheNodesOfGraphsThatAreStructs proves that a worker registers the nodes
// and dependencies of graphs that are declared as structs. Other workflows have no nodes in the
// catalogue.
func TestOPS2_TheCatalogueHasTheNodesOfGraphsThatAreStructs(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		generated(w, same)
		want := map[string][]store.CatalogNode{
			graphs.Nightly.Name(): {{ID: "sweep"}, {ID: "count", Needs: []string{"sweep"}}, {ID: "tell", Needs: []string{"count"}}},
			graphs.Research.Name(): {
				{ID: "plan"}, {ID: "fetch", Each: "plan"}, {ID: "review", Needs: []string{"fetch"}, If: true, MayFail: true},
				{ID: "write", Needs: []string{"fetch"}, Maybe: []string{"review"}},
			},
			graphs.Survey.Name(): {
				{ID: "one"}, {ID: "afterOne", Needs: []string{"one"}}, {ID: "may", MayFail: true}, {ID: "afterMay", Maybe: []string{"may"}},
				{ID: "takesMay", Needs: []string{"may"}}, {ID: "good", Maybe: []string{"may"}}, {ID: "two", Needs: []string{"one", "good"}},
			},
			graphs.Study.Name(): nil,
		}
		got := map[string][]store.CatalogNode{}
		for name, v := range w.Described(maps.Keys(want)) {
			got[name] = nil
			if v.Graph != nil {
				got[name] = v.Graph.Nodes
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("nodes (-want +got):\n%s", diff)
		}
	})
}
