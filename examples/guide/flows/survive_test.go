package flows_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/flowgen/flowgen/examples/guide/flows"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
	"github.com/flowgen/flowgen/sqlitestore"
)

// quoteAndForget registers all code. A stub that ends immediately replaces the child that monitors
// a shipment.
func quoteAndForget(env *workflowtest.Env) {
	flows.Register(env, nil)
	workflowtest.StubChild[string, string](env, flows.Review, nil)
}

func TestShipment_SurvivesEveryCrashAndAnyOrder(t *testing.T) {
	carriers := []string{"ups", "dhl"}
	workflowtest.CrashEverywhere(t, flows.Shipment, carriers, quoteAndForget, workflowtest.Pairs(40))
	workflowtest.Interleave(t, flows.Shipment, carriers, quoteAndForget, 40)
}

// pays schedules payments to the run under test and, a day later, its cancellation.
func pays(env *workflowtest.Env, cents ...int) {
	env.At(time.Hour, func(ctx context.Context) {
		for _, c := range cents {
			if err := flows.Payment.Send(ctx, env.Run(), c); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
				panic(err)
			}
		}
	})
	env.At(30*time.Hour, func(ctx context.Context) {
		if err := env.Run().Cancel(ctx, "closed"); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
			panic(err)
		}
	})
}

func TestAccount_SurvivesEveryCrashAndAnyOrder(t *testing.T) {
	setup := func(env *workflowtest.Env) {
		flows.Register(env, nil)
		pays(env, 100, 250)
	}
	workflowtest.CrashEverywhere(t, flows.AccountLoop, flows.Account{}, setup, workflowtest.Pairs(40))
	workflowtest.Interleave(t, flows.AccountLoop, flows.Account{}, setup, 40, workflowtest.AllowUnread())
}

func TestForward_SurvivesEveryCrashAndAnyOrder(t *testing.T) {
	setup := func(env *workflowtest.Env) {
		flows.Register(env, nil)
		pays(env, 100, 250)
	}
	// The target account does not exist, so sending a payment to it fails.
	workflowtest.CrashEverywhere(t, flows.Forward, "wrun_01JGFJJZ00000000000000000A", setup, workflowtest.Pairs(40))
	workflowtest.Interleave(t, flows.Forward, "wrun_01JGFJJZ00000000000000000A", setup, 40, workflowtest.AllowUnread())
}

// onStores calls explore with options for stores that have a real clock. Fewer points are explored
// than on the memory store.
func onStores(t *testing.T, explore func(t *testing.T, opts ...workflowtest.Option)) {
	url, n := redistest.Start(t).URL(), 0
	for name, open := range map[string]func(t testing.TB) (store.Store, error){
		"sqlite": func(t testing.TB) (store.Store, error) {
			return sqlitestore.Open(filepath.Join(t.TempDir(), "flows.db"))
		},
		"redis": func(testing.TB) (store.Store, error) {
			n++
			return redisstore.Open(fmt.Sprintf("%s?prefix=guide%d", url, n))
		},
	} {
		t.Run(name, func(t *testing.T) {
			explore(t, workflowtest.Sample(3), workflowtest.Pairs(2), workflowtest.WithStore(func(t testing.TB) store.Store {
				st, err := open(t)
				if err != nil {
					t.Fatal(err)
				}
				return st
			}))
		})
	}
}

func TestFlows_SurviveCrashesOnSQLiteAndRedis(t *testing.T) {
	onStores(t, func(t *testing.T, opts ...workflowtest.Option) {
		workflowtest.CrashEverywhere(t, flows.Cheapest, []string{"ups", "dhl"}, quoteAndForget, opts...)
		workflowtest.CrashEverywhere(t, flows.Shipment, []string{"ups", "dhl"}, quoteAndForget, opts...)
		workflowtest.CrashEverywhere(t, flows.Sign, "plan", func(env *workflowtest.Env) {
			flows.Register(env, nil)
			env.At(5*time.Millisecond, func(ctx context.Context) {
				if err := flows.Verdict.Send(ctx, env.Run(), flows.Decision{By: "ann", OK: true}); err != nil && ctx.Err() == nil {
					panic(err)
				}
			})
		}, opts...)
	})
}
