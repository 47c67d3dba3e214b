package graphs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflow/graph"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

var (
	builds = flowtest.Flow[int, string]("graphs.builds")
	open   = workflow.NewTopic[string]("graphs.open")
	echo   = flowtest.AStep[string, string]("graphs.echo", shim.Policy{})
	fails  = flowtest.AStep[string, string]("graphs.fails", shim.Policy{Retry: flowtest.Quick})
)

func steps() []flowtest.Binding {
	return []flowtest.Binding{
		echo.As(func(_ context.Context, s string) (string, error) { return s, nil }),
		fails.As(func(_ context.Context, s string) (string, error) { return "", step.Fatal(errors.New(s + " failed")) }),
	}
}

// says returns the code of a node that calls a step with s.
func says(s string) func(workflow.Context) (string, error) {
	return func(ctx workflow.Context) (string, error) { return echo.Call(ctx, s) }
}

func breaks(s string) func(workflow.Context) (string, error) {
	return func(ctx workflow.Context) (string, error) { return fails.Call(ctx, s) }
}

// work starts a worker that executes builds with the given code.
func work(w *flowtest.World, build func(ctx workflow.Context, n int) (string, error)) {
	w.Work(worker.Config{}, append(steps(), flowtest.As(builds, build))...)
}

func TestDAG1_ANodeBeginsWhenThoseThatItNeedsHaveEnded(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		work(w, func(ctx workflow.Context, _ int) (string, error) {
			g := graph.New()
			slow := graph.AddNode(g, "slow", func(ctx workflow.Context) (string, error) { return open.Receive(ctx) })
			first := graph.AddNode(g, "first", says("a"))
			// Node second begins although the unrelated node slow has not ended.
			second := graph.AddNode(g, "second", func(ctx workflow.Context) (string, error) {
				return echo.Call(ctx, first.Value()+"b")
			}, first)
			both := graph.AddNode(g, "both", func(workflow.Context) (string, error) {
				return slow.Value() + second.Value(), nil
			}, slow, second)
			if err := g.Run(ctx); err != nil {
				return "", err
			}
			return both.Value(), nil
		})
		run := flowtest.Start(w, builds, 0)
		w.Reach(run, event.StepCompleted, 2)
		if err := open.Send(w.Ctx, run, "c"); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, run); got != "cab" {
			t.Errorf("got %q", got)
		}
		var keys []string
		for _, e := range flowtest.Filter(w.Log(run), event.StepCreated) {
			keys = append(keys, e.Key)
		}
		if diff := cmp.Diff([]string{"builds/graph#1.first/test.graphs.echo#1", "builds/graph#1.second/test.graphs.echo#1"}, keys); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
	})
}

func TestDAG1_ANodeIsSkippedIfItsConditionOrWhatItNeedsSaysSo(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		work(w, func(ctx workflow.Context, _ int) (string, error) {
			g := graph.New()
			input := graph.AddNode(g, "input", says("in"))
			no := graph.AddNode(g, "no", says("no"), input).If(func() bool { return input.Value() != "in" })
			yes := graph.AddNode(g, "yes", says("yes"), input).If(func() bool { return input.Value() == "in" })
			after := graph.AddNode(g, "after", says("after"), no, yes)
			may := graph.AddNode(g, "may", breaks("may"), yes).SkipOnFailure()
			end := graph.AddNode(g, "end", func(workflow.Context) (string, error) {
				return fmt.Sprintln(no.Pointer() == nil, *yes.Pointer(), after.Pointer() == nil, may.Pointer() == nil, may.Err() != nil), nil
			}, no.Maybe(), yes.Maybe(), after.Maybe(), may.Maybe())
			if err := g.Run(ctx); err != nil {
				return "", err
			}
			return end.Value(), nil
		})
		if got := flowtest.Result(w, flowtest.Start(w, builds, 0)); got != "true yes true true true\n" {
			t.Errorf("got %q", got)
		}
	})
}

func TestDAG1_TheFirstFailureCancelsTheOthersAndIsReturned(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var canceled flowtest.Seen[error]
		work(w, func(ctx workflow.Context, _ int) (string, error) {
			g := graph.New()
			graph.AddNode(g, "sleeps", func(ctx workflow.Context) (string, error) {
				err := workflow.Sleep(ctx, 24*time.Hour)
				canceled.Add(err)
				return "", err
			})
			bad := graph.AddNode(g, "bad", breaks("bad"))
			graph.AddNode(g, "never", says("never"), bad)
			return "", g.Run(ctx)
		})
		run := flowtest.Start(w, builds, 0)
		if err := flowtest.Failure(w, run); !strings.Contains(err.Error(), "bad failed") {
			t.Errorf("got %v", err)
		}
		if got := canceled.Get(); len(got) == 0 || !errors.Is(got[0], workflow.ErrCanceled) {
			t.Errorf("the node that slept got %v", got)
		}
		if n := len(flowtest.Filter(w.Log(run), event.StepCreated)); n != 1 {
			t.Errorf("%d steps were called, want that of the node that failed", n)
		}
	})
}

func TestDAG1_FinishOthersEndsOnlyWhatDependsOnAFailure(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		work(w, func(ctx workflow.Context, _ int) (string, error) {
			g := graph.New(graph.FinishOthers())
			one := graph.AddNode(g, "one", breaks("one"))
			graph.AddNode(g, "afterone", says("afterone"), one.Maybe())
			slow := graph.AddNode(g, "slow", func(ctx workflow.Context) (string, error) { return open.Receive(ctx) })
			good := graph.AddNode(g, "good", says("good"), slow)
			graph.AddNode(g, "two", breaks("two"), good)
			err := g.Run(ctx)
			return "", fmt.Errorf("%s: %w", good.Value(), err)
		})
		run := flowtest.Start(w, builds, 0)
		w.Reach(run, event.StepFailed, 1)
		if err := open.Send(w.Ctx, run, "go on"); err != nil {
			t.Fatal(err)
		}
		err := flowtest.Failure(w, run)
		if !flowtest.ContainsAll(err.Error(), "good", "one failed", "two failed") || strings.Index(err.Error(), "one failed") > strings.Index(err.Error(), "two failed") {
			t.Errorf("got %v", err)
		}
	})
}

func TestDAG1_EachElementOfAResultHasABranch(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		work(w, func(ctx workflow.Context, n int) (string, error) {
			g := graph.New()
			// A node can refer by ID to nodes that are added later.
			graph.AddNode(g, "all", func(workflow.Context) (string, error) {
				return strings.Join(graph.NodeOf[[]string](g, "pages").Value(), "+"), nil
			}, graph.NodeOf[[]string](g, "pages"))
			graph.AddEach(g, "pages", graph.NodeOf[[]string](g, "plan"), func(ctx workflow.Context, s string) (string, error) {
				return echo.Call(ctx, s+"!")
			})
			graph.AddNode(g, "plan", func(workflow.Context) (plan []string, err error) {
				for i := range n {
					plan = append(plan, fmt.Sprint(i))
				}
				return plan, nil
			})
			if err := g.Run(ctx); err != nil {
				return "", err
			}
			return graph.NodeOf[string](g, "all").Value(), nil
		})
		for n, want := range []string{"", "0!", "0!+1!", "0!+1!+2!"} {
			if got := flowtest.Result(w, flowtest.Start(w, builds, n)); got != want {
				t.Errorf("%d: got %q, want %q", n, got, want)
			}
		}
	})
}

func TestDAG2_AllFaultsAreReturnedBeforeAnythingBegins(t *testing.T) {
	w := flowtest.NewMemory(t)
	var got error
	work(w, func(ctx workflow.Context, _ int) (string, error) {
		other := graph.AddNode(graph.New(), "other", says("other"))
		g := graph.New()
		a := graph.AddNode(g, "a", says("a"), graph.NodeOf[string](g, "b"))
		graph.AddNode(g, "c", says("c"), a)
		graph.AddNode(g, "b", says("b"), graph.NodeOf[any](g, "c"))
		graph.AddNode(g, "a", says("a again"))
		graph.AddNode(g, "d", says("d"), graph.NodeOf[int](g, "a"), graph.NodeOf[int](g, "z"), other)
		graph.AddNode(g, "self", says("self"), graph.NodeOf[string](g, "self").Maybe())
		graph.AddNode(g, "no/slash", says(""))
		got = g.Run(ctx)
		return "", got
	})
	run := flowtest.Start(w, builds, 0)
	if err := flowtest.Failure(w, run); !strings.Contains(err.Error(), `nodes need each other: a → b → c → a`) {
		t.Errorf("got %v", err)
	}
	fault, ok := errors.AsType[*graph.Error](got)
	if !ok {
		t.Fatalf("got %v", got)
	}
	want := []graph.Fault{
		{Kind: graph.Duplicate, Node: "a"},
		{Kind: graph.WrongType, Node: "d", Need: "a", Has: "string", Wants: "int"},
		{Kind: graph.Unknown, Node: "d", Need: "z"},
		{Kind: graph.Foreign, Node: "d", Need: "other"},
		{Kind: graph.BadID, Node: "no/slash"},
		{Kind: graph.Cycle, Node: "a", Cycle: []string{"a", "b", "c", "a"}},
		{Kind: graph.Cycle, Node: "self", Cycle: []string{"self", "self"}},
	}
	if diff := cmp.Diff(want, fault.Faults); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	if n := len(flowtest.Filter(w.Log(run), event.StepCreated)); n != 0 {
		t.Errorf("%d steps were called", n)
	}
}

func TestDAG2_AResultIsNotReadAsAnotherType(t *testing.T) {
	w := flowtest.NewMemory(t)
	work(w, func(ctx workflow.Context, _ int) (string, error) {
		g := graph.New()
		a := graph.AddNode(g, "a", says("a"))
		graph.AddNode(g, "b", func(workflow.Context) (int, error) {
			return graph.NodeOf[int](g, "a").Value(), nil // b does not depend on a, but Run cannot detect this
		}, a)
		return "", g.Run(ctx)
	})
	run := flowtest.Start(w, builds, 0)
	if err := flowtest.Failure(w, run); !flowtest.ContainsAll(err.Error(), `the result of node "a" is string`, "int") {
		t.Errorf("got %v", err)
	}
}

// research builds a graph with a condition, a skipped node, a node that may fail, elements, and a
// node with two paths to it.
func research(ctx workflow.Context, n int) (string, error) {
	g := graph.New()
	plan := graph.AddNode(g, "plan", func(ctx workflow.Context) ([]string, error) {
		s, err := echo.Call(ctx, "abcdef"[:n])
		return strings.Split(s, ""), err
	})
	fetch := graph.AddEach(g, "fetch", plan, func(ctx workflow.Context, s string) (string, error) { return echo.Call(ctx, s+s) })
	notes := graph.AddNode(g, "notes", breaks("notes"), fetch).SkipOnFailure()
	short := graph.AddNode(g, "short", says("short"), plan).If(func() bool { return len(plan.Value()) < 2 })
	write := graph.AddNode(g, "write", func(ctx workflow.Context) (string, error) {
		return echo.Call(ctx, fmt.Sprint(fetch.Value(), notes.Pointer() == nil, short.Pointer() == nil))
	}, fetch, notes.Maybe(), short.Maybe())
	if err := g.Run(ctx); err != nil {
		return "", err
	}
	return write.Value(), nil
}

func setup(build func(workflow.Context, int) (string, error)) func(e *workflowtest.Env) {
	return func(e *workflowtest.Env) {
		shim.BindWorkflow(e, builds, build)
		for _, bind := range steps() {
			bind(e)
		}
	}
}

func TestDAG4_AGraphSurvivesACrashAtEachPoint(t *testing.T) {
	on := func(partitions int) workflowtest.Option {
		return workflowtest.WithStore(func(testing.TB) store.Store { return memstore.NewWith(memstore.Config{Partitions: partitions}) })
	}
	r := workflowtest.CrashEverywhere(t, builds, 3, setup(research), on(1), workflowtest.Pairs(20))
	t.Logf("%+v", r)
	workflowtest.CrashEverywhere(t, builds, 0, setup(func(ctx workflow.Context, _ int) (string, error) {
		g := graph.New(graph.FinishOthers())
		bad := graph.AddNode(g, "bad", func(ctx workflow.Context) (string, error) {
			_, err := fails.Call(ctx, "bad")
			return "", fmt.Errorf("bad failed: %t", err != nil) // the text of err is not used, because it contains the number of attempts
		})
		good := graph.AddNode(g, "good", says("good"))
		graph.AddNode(g, "afterbad", says("afterbad"), bad)
		graph.AddNode(g, "aftergood", says("aftergood"), good)
		return "", g.Run(ctx)
	}), on(1), workflowtest.Pairs(10))
	workflowtest.CrashEverywhere(t, builds, 0, setup(func(ctx workflow.Context, _ int) (string, error) {
		g := graph.New()
		graph.AddNode(g, "sleeps", func(ctx workflow.Context) (string, error) { return "", workflow.Sleep(ctx, time.Hour) })
		good := graph.AddNode(g, "good", says("good"))
		bad := graph.AddNode(g, "bad", func(ctx workflow.Context) (string, error) {
			_, err := fails.Call(ctx, "bad")
			return "", fmt.Errorf("bad failed: %t", err != nil)
		}, good)
		graph.AddNode(g, "afterbad", says("afterbad"), bad)
		return "", g.Run(ctx)
	}), on(1), workflowtest.Pairs(10))
}

func TestDAG4_AGraphHasTheSameResultInEachOrderOfArrivals(t *testing.T) {
	r := workflowtest.Interleave(t, builds, 3, setup(research), 60)
	t.Logf("%+v", r)
}

func TestGraph_OfTenThousandNodesIsExecuted(t *testing.T) {
	const n = 10_000
	w := flowtest.NewMemory(t)
	var order []int
	work(w, func(ctx workflow.Context, n int) (string, error) {
		g := graph.New()
		order = order[:0]
		for i := range n {
			var needs []graph.Dependency
			if i >= 100 { // the nodes form a hundred chains
				needs = append(needs, graph.NodeOf[int](g, fmt.Sprint(i-100)))
			}
			graph.AddNode(g, fmt.Sprint(i), func(workflow.Context) (int, error) {
				order = append(order, i)
				return i, nil
			}, needs...)
		}
		return "", g.Run(ctx)
	})
	flowtest.Result(w, flowtest.Start(w, builds, n))
	if len(order) != n || slices.Index(order, 100) < slices.Index(order, 0) {
		t.Errorf("%d nodes were executed", len(order))
	}
}
