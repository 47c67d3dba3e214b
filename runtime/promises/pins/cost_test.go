package pins_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// reads counts the reads from which builds are determined.
type reads struct {
	*memstore.Store
	n, fleets atomic.Int64
}

func (r *reads) Unwrap() store.Store { return r.Store }

func (r *reads) Fleet(ctx context.Context) (store.Fleet, error) {
	r.n.Add(1)
	defer r.fleets.Add(1)
	return r.Store.Fleet(ctx)
}

func (r *reads) Entries(ctx context.Context, q store.EntryQuery) ([]store.Entry, error) {
	if q.Space == store.DeploySpace { // the starting worker reads the catalogue in the background
		r.n.Add(1)
	}
	return r.Store.Entries(ctx, q)
}

var (
	costly = pinnedFlow[int, string]("pins.costly")
	cheap  = shim.NewWorkflow[int, string]("test.pins.cheap", "in", shim.WorkflowPolicy{})
)

// Pinned runs cost the same requests as other runs. The builds of all of them are determined from
// few reads.
func TestOPS10_PinnedRunsCostTheSameRequests(t *testing.T) {
	const runs = 200
	costs := func(d workflow.Definition[int, string]) (map[string]int, int64, time.Duration) {
		counted := &reads{Store: memstore.New()}
		w := flowtest.NewWorld(t, counted, workflow.ClientConfig{})
		between := &flowtest.Between{Store: counted}
		code := func(workflow.Context, int) (string, error) { return "", nil }
		r := w.WorkOn(between, worker.Config{Build: "a"}, flowtest.As(costly, code), flowtest.As(cheap, code))
		serving(w, costly, "a")
		before, read, began := between.Tally(), counted.n.Load(), time.Now()
		for n := range runs {
			run, err := d.Start(w.Ctx, r.Client, n)
			flowtest.Order(t, err)
			flowtest.Result(w, run)
		}
		all := map[string]int{}
		for op, n := range between.Tally() {
			switch op {
			case "create", "commit", "load", "deliver", "release":
				all[op] = n - before[op]
			}
		}
		return all, counted.n.Load() - read, time.Since(began)
	}
	pinned, read, took := costs(costly)
	plain, _, _ := costs(cheap)
	for op, n := range plain {
		if pinned[op] != n {
			t.Errorf("%d pinned runs cost %d requests %s, others %d", runs, pinned[op], op, n)
		}
	}
	if plain["create"] != runs || plain["commit"] < runs {
		t.Errorf("the runs cost %v", plain)
	}
	// A copy takes two reads. The client and the mover of its worker make one each in five seconds. The
	// worker may read the record once more to register its build.
	if most := 1 + 2*(2+2*int64(took/(5*time.Second))); read > most {
		t.Errorf("%d reads in %v, want at most %d", read, took, most)
	}
}
