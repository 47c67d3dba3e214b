//go:build !inmemory

package worker_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// crowds are the stores on which the quarantine is tested.
var crowds = map[string]func(t *testing.T) store.Store{
	"memory":                 func(*testing.T) store.Store { return memstore.New() },
	"memory in 3 partitions": flowtest.Stores["memory in 3 partitions"],
	"sqlite":                 flowtest.Stores["sqlite"],
	"redis in 16 partitions": func(t *testing.T) store.Store {
		st, err := redisstore.Open(redistest.Start(t).URL())
		if err != nil {
			t.Fatal(err)
		}
		return st
	},
}

var crowdStep = flowtest.AStep[int, int]("crowd.step", shim.Policy{})

// TestREC4_ARunThatKillsItsWorkersTakesNobodyWithIt proves that a run which ends every process that
// executes it is poisoned after at most Recoveries deaths. Other runs were started before, with
// steps that take longer than a process runs. All of them complete.
func TestREC4_ARunThatKillsItsWorkersTakesNobodyWithIt(t *testing.T) {
	for _, test := range []struct {
		innocents, workers int
		inStep             bool
		takes              time.Duration
	}{
		{1, 1, true, 300 * time.Millisecond},
		{10, 1, false, 100 * time.Millisecond},
		{10, 3, true, 100 * time.Millisecond},
		{200, 1, true, 5 * time.Millisecond},
	} {
		for name, open := range crowds {
			t.Run(fmt.Sprintf("%d beside it, %d workers, in a step %t/%s", test.innocents, test.workers, test.inStep, name), func(t *testing.T) {
				t.Parallel()
				w := flowtest.NewWorld(t, open(t), workflow.ClientConfig{})
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				w.Ctx = ctx
				var innocent []*workflow.Run[int]
				for n := range test.innocents {
					innocent = append(innocent, flowtest.Start(w, crowdFlow, n))
				}
				guilty := flowtest.Start(w, killerFlow, 0)
				f := w.Keep(test.workers, worker.Config{}, func(die func()) []flowtest.Binding {
					return []flowtest.Binding{
						flowtest.As(crowdFlow, crowdStep.Call),
						crowdStep.As(func(ctx context.Context, n int) (int, error) { return n, pause(ctx, test.takes) }),
						flowtest.As(killerFlow, func(ctx workflow.Context, n int) (int, error) {
							if !test.inStep {
								die()
								return 0, errors.New("it is dead")
							}
							return killerStep.Call(ctx, n)
						}),
						killerStep.As(func(ctx context.Context, n int) (int, error) {
							die()
							return n, ctx.Err()
						}),
					}
				})
				if e := flowtest.Failure(w, guilty); e.Code != event.CodePoisoned || !flowtest.ContainsAll(e.Error(), "died 5 times") {
					t.Errorf("the run that kills: got %v", e)
				}
				for n, run := range innocent {
					if got := flowtest.Result(w, run); got != n {
						t.Errorf("innocent run %d: got %d", n, got)
					}
				}
				if n := f.Deaths.Load(); n != 5 {
					t.Errorf("%d workers died, want 5", n)
				}
			})
		}
	}
}
