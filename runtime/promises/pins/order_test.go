package pins_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// job is the input of a workflow with a fairness key and a priority.
type job struct {
	N, Priority int
	Tenant      string
}

// ranked returns a workflow whose runs are pinned if pin is set.
func ranked(name string, pin bool) workflow.Definition[job, int] {
	return shim.NewWorkflow[job, int]("test.pins."+name, "in", shim.WorkflowPolicy{
		Pin: pin, Priority: shim.Priority(func(j job) int { return j.Priority }), Fair: shim.Fair(func(j job) (string, int) { return j.Tenant, 1 }),
	})
}

var rankedFlows = map[bool]workflow.Definition[job, int]{true: ranked("ranked", true), false: ranked("ranked-plain", false)}

// Runs of one route begin by their priorities and fairness keys, whether they are pinned or not.
func TestOPS10_PinnedRunsBeginInTheOrderOfOtherRuns(t *testing.T) {
	flowtest.OnPartitions(t, 1, func(t *testing.T, w *flowtest.World) {
		orders := map[bool][]int{}
		for pin, d := range rankedFlows {
			build := ""
			if pin { // a session without a worker, so that the runs are pinned and none begins
				build = "a"
			}
			flowtest.Order(t, w.Store.OpenSession(w.Ctx, store.Session{
				ID: "pretended", Worker: "pretended", TTL: flowtest.Patience, Fingerprint: "a@0",
				Routes: []store.Route{{Queue: event.PinnedQueue(workflow.DefaultQueue, build), Workflow: d.Name()}},
			}))
			var runs []*workflow.Run[int]
			client := workflow.NewClient(w.Store, workflow.ClientConfig{})
			for n, j := range []job{{Tenant: "x"}, {Tenant: "x"}, {Tenant: "x"}, {Tenant: "y"}, {Priority: 5, Tenant: "x"}, {Priority: -5, Tenant: "y"}, {Tenant: "y"}, {Priority: 5, Tenant: "y"}} {
				j.N = n
				run, err := d.Start(w.Ctx, client, j)
				flowtest.Order(t, err)
				if got := pinOf(w, run); got != build {
					t.Fatalf("pinned to build %q, want %q", got, build)
				}
				runs = append(runs, run)
			}
			flowtest.Order(t, w.Store.CloseSession(w.Ctx, 0, "pretended"))
			var order flowtest.Seen[int]
			r := w.WorkOn(w.Store, worker.Config{Build: "a", Runs: 1}, flowtest.As(d, func(_ workflow.Context, j job) (int, error) {
				order.Add(j.N)
				return j.N, nil
			}))
			for _, run := range runs {
				flowtest.Result(w, run)
			}
			r.Stop()
			orders[pin] = order.Get()
		}
		if diff := cmp.Diff(orders[false], orders[true]); diff != "" {
			t.Errorf("order of the runs (-not pinned +pinned):\n%s", diff)
		}
		if first := orders[true][:2]; !cmp.Equal([]int{4, 7}, first) {
			t.Errorf("runs %v begin first, want those with priority 5", first)
		}
		w.Healthy()
	})
}
