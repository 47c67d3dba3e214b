package graphs_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/generated/graphs"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
	"github.com/flowgen/flowgen/sqlitestore"
)

func structs(work graphs.Work) func(e *workflowtest.Env) {
	return func(e *workflowtest.Env) { graphs.Register(e, &graphs.LLM{Prefix: "on "}, work) }
}

// explored calls explore with runs of the generated graphs. They have elements, conditions, skipped
// steps and several sinks, and they fail under both policies for failures.
func explored(t *testing.T, explore func(t *testing.T, name string, run exploration)) {
	t.Helper()
	research := func(tone string) exploration {
		return explorationOf(graphs.Research, graphs.ResearchInput{Question: "life universe", Tone: tone}, structs(same))
	}
	explore(t, "a condition that says yes", research("strict"))
	explore(t, "a condition that says no", research("mild"))
	explore(t, "a step of each kind", explorationOf(graphs.Shapes, graphs.ShapesInput{N: 2}, structs(same)))
	explore(t, "a step that may fail", explorationOf(graphs.Survey, workflow.None{}, structs(broken("may"))))
	explore(t, "failures, and others go on", failing(broken("one", "after may"), func(ctx workflow.Context) (string, error) {
		return graphs.Survey.Child(ctx, workflow.None{})
	}))
	explore(t, "a failure cancels the others", failing(slowly(broken("first second")), func(ctx workflow.Context) (string, error) {
		return graphs.Diamond.Child(ctx, graphs.DiamondInput{})
	}))
	explore(t, "after a step", explorationOf(graphs.Nightly, workflow.None{}, structs(same)))
}

// slowly returns work whose step "slow" runs until it is canceled.
func slowly(work graphs.Work) graphs.Work {
	return func(ctx context.Context, what string) (string, error) {
		if what == "slow" {
			<-ctx.Done()
			return "", ctx.Err()
		}
		return work(ctx, what)
	}
}

// failing returns an exploration that executes a graph as a child and counts its failures. The
// result cannot contain the text of a failure, because the text contains the number of attempts,
// which a crash increases.
func failing(work graphs.Work, graph func(ctx workflow.Context) (string, error)) exploration {
	return explorationOf(builds, 0, func(e *workflowtest.Env) {
		structs(work)(e)
		shim.BindWorkflow(e, builds, func(ctx workflow.Context, _ int) (string, error) {
			_, err := graph(ctx)
			if err == nil {
				return "", errors.New("the graph has not failed")
			}
			return fmt.Sprint(strings.Count(err.Error(), "failed after"), " failures"), nil
		})
	})
}

// exploration contains the tests of package workflowtest for a workflow with an input. It hides the
// types of the input and the result.
type exploration struct {
	crash      func(t testing.TB, opts ...workflowtest.Option) workflowtest.CrashReport
	interleave func(t testing.TB, n int, opts ...workflowtest.Option)
}

func explorationOf[In, Out any](d workflow.Definition[In, Out], in In, setup func(*workflowtest.Env)) exploration {
	return exploration{
		func(t testing.TB, opts ...workflowtest.Option) workflowtest.CrashReport {
			return workflowtest.CrashEverywhere(t, d, in, setup, opts...)
		},
		func(t testing.TB, n int, opts ...workflowtest.Option) {
			workflowtest.Interleave(t, d, in, setup, n, opts...)
		},
	}
}

func TestDAG4_GraphsOfStructsSurviveACrashAtEachPointAndPair(t *testing.T) {
	one := workflowtest.WithStore(func(testing.TB) store.Store { return memstore.NewWith(memstore.Config{Partitions: 1}) })
	explored(t, func(t *testing.T, name string, run exploration) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Logf("%+v", run.crash(t, one, workflowtest.Pairs(30)))
		})
	})
}

func TestDAG4_GraphsOfStructsEndTheSameInEachOrderOfArrivals(t *testing.T) {
	explored(t, func(t *testing.T, name string, run exploration) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run.interleave(t, 40)
		})
	})
}

func TestDAG4_GraphsOfStructsSurviveCrashesOnSQLiteAndRedis(t *testing.T) {
	redis, n := redistest.Start(t).URL(), 0
	for name, open := range map[string]func(t testing.TB) (store.Store, error){
		"sqlite": func(t testing.TB) (store.Store, error) {
			return sqlitestore.Open(filepath.Join(t.TempDir(), "flows.db"))
		},
		"redis": func(testing.TB) (store.Store, error) {
			n++
			return redisstore.Open(fmt.Sprintf("%s?prefix=graphs%d%s", redis, n, time.Now().Format("150405")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			explored(t, func(t *testing.T, name string, run exploration) {
				t.Run(name, func(t *testing.T) {
					run.crash(t, workflowtest.Sample(2), workflowtest.Pairs(1), workflowtest.WithStore(func(t testing.TB) store.Store {
						st, err := open(t)
						if err != nil {
							t.Fatal(err)
						}
						return st
					}))
				})
			})
		})
	}
}
