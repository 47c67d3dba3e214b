package pins_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/deploy"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/archive"
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
			client := flowtest.NewClient(w.Store, workflow.ClientConfig{})
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

// Pinned runs of two builds wait for the same permit, and each begins on its build.
func TestOPS10_PinnedRunsWaitForPermitsOnTheirBuild(t *testing.T) {
	one := limit.New("test.pins.turns", limit.Config{AtOnce: 1})
	turns := shim.NewWorkflow[int, string]("test.pins.turns", "in", shim.WorkflowPolicy{Pin: true, Uses: shim.Uses(func(int) []limit.Use { return []limit.Use{one.Use(1)} })})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		workers := map[string]*flowtest.Running{}
		for _, name := range []string{"a", "b"} {
			workers[name] = w.WorkOn(w.Store, worker.Config{Build: name}, flowtest.As(turns, func(ctx workflow.Context, _ int) (string, error) {
				return name, workflow.Sleep(ctx, time.Millisecond)
			}))
		}
		serving(w, turns, "a", "b")
		var runs []*workflow.Run[string]
		var want []string
		for n := range 5 {
			for name, by := range workers {
				run, err := turns.Start(w.Ctx, by.Client, n)
				flowtest.Order(t, err)
				runs, want = append(runs, run), append(want, name)
			}
		}
		for i, run := range runs {
			if got := flowtest.Result(w, run); got != want[i] {
				t.Errorf("run of build %s was executed by %s", want[i], got)
			}
		}
		w.Healthy()
	})
}

// A run that kills each worker of its build is poisoned there, and does not go to another build.
func TestOPS10_APinnedRunThatKillsItsWorkersIsPoisonedOnItsBuild(t *testing.T) {
	killer := pinnedFlow[int, string]("pins.killer")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.WorkOn(w.Store, worker.Config{Build: "b"}, flowtest.MovesEvery(time.Hour), flowtest.As(killer, func(workflow.Context, int) (string, error) { return "b", nil }))
		f := w.Keep(1, worker.Config{Build: "a", Recoveries: 3, Heartbeat: 50 * time.Millisecond, ClaimExpiry: 500 * time.Millisecond}, func(die func()) []flowtest.Binding {
			return []flowtest.Binding{flowtest.As(killer, func(ctx workflow.Context, _ int) (string, error) {
				die()
				return "a", ctx.Err()
			})}
		})
		serving(w, killer, "a", "b")
		change(w, func(s *deploy.State) { s.Add("a").Percent = 100 })
		run := flowtest.Start(w, killer, 0)
		if pin := pinOf(w, run); pin != "a" {
			t.Fatalf("pinned to build %q, want a", pin)
		}
		if e := flowtest.Failure(w, run); e.Code != event.CodePoisoned {
			t.Errorf("got %v, want the code %s", e, event.CodePoisoned)
		}
		if n, pin := f.Deaths.Load(), pinOf(w, run); n != 3 || pin != "a" {
			t.Errorf("%d workers died, and the run is pinned to build %q; want 3 of build a", n, pin)
		}
		w.Healthy()
	})
}

// An export contains the build of a pinned run, so a store into which it is imported has it.
func TestOPS10_AnImportedRunIsPinnedToItsBuild(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		a := all(w, "a", worker.Config{})
		serving(w, fragile, "a")
		run, err := fragile.Start(w.Ctx, a.Client, 1)
		flowtest.Order(t, err)
		flowtest.Failure(w, run)
		var file bytes.Buffer
		to, err := archive.NewWriter(&file, archive.Head{Source: "test", Exported: w.Store.Clock().Now()})
		flowtest.Order(t, err)
		flowtest.Order(t, archive.NewExporter(w.Store, to, nil).Run(w.Ctx, run.ID()))
		flowtest.Order(t, to.Close())
		other := flowtest.NewMemory(t)
		flowtest.Order(t, archive.Import(w.Ctx, bytes.NewReader(file.Bytes()), other.Store, "test", func(archive.Imported) {}))
		info, err := other.Client.Run(run.ID()).Info(w.Ctx)
		flowtest.Order(t, err)
		if info.Pin != "a" || info.Queue != workflow.DefaultQueue {
			t.Errorf("the imported run is pinned to build %q on queue %q, want a on %s", info.Pin, info.Queue, workflow.DefaultQueue)
		}
		retry, err := other.Client.Run(run.ID()).Retry(w.Ctx)
		flowtest.Order(t, err)
		if pin := pinOf(other, retry); pin != "" {
			t.Errorf("its retry in a store without workers is pinned to build %q", pin)
		}
		other.Healthy()
	})
}
