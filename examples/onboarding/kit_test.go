package main

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// signup returns a setup in which the user follows the link after the time click. patience is the
// time before the site sends a reminder.
func signup(click, patience time.Duration) func(env *workflowtest.Env) {
	return func(env *workflowtest.Env) {
		s := newSite("http://127.0.0.1", "", patience, func(mail) {})
		s.token = func() string { return "t" } // The token must be the same in each execution.
		Register(env, s)
		env.At(click, func(ctx context.Context) {
			for _, token := range []string{"guessed", "t"} { // The clicks arrive in this order.
				err := Clicked.Send(ctx, env.Run(), Click{token}, workflow.IdempotencyKey(token))
				if err != nil && !errors.Is(err, workflow.ErrRunTerminal) && ctx.Err() == nil {
					panic(err)
				}
			}
		})
	}
}

func TestOnboarding_SurvivesEveryCrash(t *testing.T) {
	for name, click := range map[string]time.Duration{"at once": time.Minute, "after reminders": 50 * time.Hour, "never": 10_000 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			r := workflowtest.CrashEverywhere(t, Onboarding, Signup{"ann@example.com"}, signup(click, 24*time.Hour), workflowtest.Pairs(30))
			t.Logf("%+v", r)
		})
	}
}

func TestOnboarding_WorksInAnyOrder(t *testing.T) {
	// A click that arrives after the deadline of the last reminder is not accepted.
	workflowtest.Interleave(t, Onboarding, Signup{"ann@example.com"}, signup(24*time.Hour, 24*time.Hour), 60, workflowtest.AllowUnread())
}

func TestOnboarding_SurvivesCrashesOnSQLiteAndRedis(t *testing.T) {
	redis := redistest.Start(t).URL() + "?prefix=kit"
	n := 0
	for name, url := range map[string]func(t testing.TB) string{
		"sqlite": func(t testing.TB) string { return "sqlite:" + filepath.Join(t.TempDir(), "flows.db") },
		"redis":  func(testing.TB) string { n++; return redis + strconv.Itoa(n) },
	} {
		t.Run(name, func(t *testing.T) {
			workflowtest.CrashEverywhere(t, Onboarding, Signup{"ann@example.com"}, signup(5*time.Millisecond, time.Hour), workflowtest.Sample(4), workflowtest.Pairs(2),
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
