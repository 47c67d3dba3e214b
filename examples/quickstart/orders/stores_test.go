package orders

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"

	_ "github.com/flowgen/flowgen/redisstore"
	_ "github.com/flowgen/flowgen/sqlitestore"
)

func TestFulfil_SurvivesCrashesOnSQLiteAndRedis(t *testing.T) {
	setup := func(env *workflowtest.Env) {
		Register(env, &Shop{})
		env.At(5*time.Millisecond, func(ctx context.Context) {
			if err := Approval.Send(ctx, env.Run(), "ann", workflow.IdempotencyKey("click-1")); err != nil && ctx.Err() == nil {
				panic(err)
			}
		})
	}
	redis := redistest.Start(t).URL() + "?prefix=kit"
	for name, url := range map[string]func(t testing.TB) string{
		"sqlite": func(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "flows.db") },
		"redis":  func(testing.TB) string { return redis + time.Now().Format("150405.000000") },
	} {
		t.Run(name, func(t *testing.T) {
			workflowtest.CrashEverywhere(t, Fulfil, testOrder, setup, workflowtest.Sample(3), workflowtest.Pairs(2),
				workflowtest.WithStore(func(t testing.TB) store.Store {
					st, err := store.Open(t.Context(), url(t))
					if err != nil {
						t.Fatal(err)
					}
					return st
				}))
		})
	}
}
