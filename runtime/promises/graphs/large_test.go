package graphs_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflow/graph"
)

// nodes is the number of nodes of a large graph. For measurements, set -graph.nodes=10000.
var nodes = flag.Int("graph.nodes", 1000, "nodes of the graphs that are measured")

// meter records, for each step of a run, when it was executed and how much memory the process had
// allocated until then.
type meter struct {
	at    []time.Time
	bytes []uint64
}

func (m *meter) step(_ context.Context, s string) (string, error) {
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	m.at, m.bytes = append(m.at, time.Now()), append(m.bytes, mem.TotalAlloc)
	return s, nil
}

// tenth returns the median duration and the average allocation of the steps in one tenth of the
// run. i is 0 for the first tenth.
func (m *meter) tenth(i int) (took time.Duration, allocated uint64) {
	n := len(m.at) / 10
	from, to := i*n, (i+1)*n-1
	var gaps []time.Duration
	for k := from; k < to; k++ {
		gaps = append(gaps, m.at[k+1].Sub(m.at[k]))
	}
	slices.Sort(gaps)
	return gaps[len(gaps)/2], (m.bytes[to] - m.bytes[from]) / uint64(to-from)
}

// TestDAG4_TheLastOfManyNodesAllocatesWhatTheFirstDoes proves that a node at the end of a large
// graph allocates at most twice as much as a node at its beginning. The nodes form a chain, so each
// of them is a separate step with separate commits.
func TestDAG4_TheLastOfManyNodesAllocatesWhatTheFirstDoes(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // a measurement takes longer than flowtest.Patience
		defer cancel()
		w.Ctx = ctx
		m := &meter{}
		w.Work(worker.Config{}, echo.As(m.step), flowtest.As(builds, func(ctx workflow.Context, n int) (string, error) {
			g := graph.New()
			for i := range n {
				var needs []graph.Dependency
				if i > 0 {
					needs = append(needs, graph.NodeOf[string](g, fmt.Sprint(i-1)))
				}
				graph.AddNode(g, fmt.Sprint(i), says("node"), needs...)
			}
			return "done", g.Run(ctx)
		}))
		start := time.Now()
		run := flowtest.Start(w, builds, *nodes)
		if _, err := run.Result(ctx); err != nil {
			t.Fatal(err)
		}
		took := time.Since(start)
		loaded, err := w.Store.Load(ctx, []store.Load{{Run: run.ID()}})
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, frame := range loaded[0].Frames {
			size += len(frame)
		}
		if len(m.at) != *nodes {
			t.Fatalf("%d steps were executed, want %d", len(m.at), *nodes)
		}
		early, allocatedEarly := m.tenth(1)
		late, allocatedLate := m.tenth(9)
		t.Logf("%d nodes in %v: %d events, %d bytes; a step takes %v in the second tenth and %v in the last, and allocates %d and %d bytes",
			*nodes, took, len(w.Log(run)), size, early, late, allocatedEarly, allocatedLate)
		if allocatedLate > 2*allocatedEarly {
			t.Errorf("a node at the end allocates %d bytes, one at the begin %d", allocatedLate, allocatedEarly)
		}
	})
}

// TestDAG1_ANodeMayNeedAllOthers proves that a node may depend on all of 20,000 other nodes. The
// run completes in time because a node that ends visits only its own dependents.
func TestDAG1_ANodeMayNeedAllOthers(t *testing.T) {
	const n = 20_000
	w := flowtest.NewMemory(t)
	work(w, func(ctx workflow.Context, _ int) (string, error) {
		g := graph.New()
		var all []graph.Dependency
		for i := range n {
			all = append(all, graph.AddNode(g, fmt.Sprint(i), func(workflow.Context) (int, error) { return i, nil }))
		}
		sum := graph.AddNode(g, "sum", func(workflow.Context) (int, error) {
			sum := 0
			for _, x := range all {
				sum += x.(*graph.Node[int]).Value()
			}
			return sum, nil
		}, all...)
		err := g.Run(ctx)
		return fmt.Sprint(sum.Value()), err
	})
	run := flowtest.Start(w, builds, 0)
	if got := flowtest.Result(w, run); got != fmt.Sprint(n*(n-1)/2) {
		t.Errorf("got %s", got)
	}
	if n := len(flowtest.Filter(w.Log(run), event.StepCreated)); n != 0 {
		t.Errorf("%d steps", n)
	}
}

// TestDAG1_ACancelIsOneFailureOfAGraph proves that the end of its context is a single failure of a
// graph, however many nodes it ends. A graph without waiting nodes completes.
func TestDAG1_ACancelIsOneFailureOfAGraph(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(builds, func(ctx workflow.Context, n int) (string, error) {
			g := graph.New(graph.FinishOthers())
			for i := range n {
				graph.AddNode(g, fmt.Sprint(i), func(ctx workflow.Context) (string, error) {
					_, err := open.Receive(ctx)
					return "", err
				})
			}
			failed := g.Run(ctx)
			ended := graph.New()
			graph.AddNode(ended, "nolook", func(workflow.Context) (string, error) { return "", nil })
			return fmt.Sprintf("%v, then %v", failed, ended.Run(ctx)), nil
		}))
		run := flowtest.Start(w, builds, 3)
		w.Reach(run, event.WaitCreated, 3)
		if err := run.Cancel(w.Ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, run); got != fmt.Sprintf("%v, then <nil>", workflow.ErrCanceled) {
			t.Errorf("got %q", got)
		}
	})
}
