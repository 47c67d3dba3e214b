package survival

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var innocents = flag.Int("killer.innocents", 10, "number of runs beside the one of TestREC4_ARunWhoseStepExitsTheProcess")

var (
	killer  = shim.NewWorkflow[int, int]("survival.killer", "n", shim.WorkflowPolicy{})
	beside  = shim.NewWorkflow[int, int]("survival.beside", "n", shim.WorkflowPolicy{})
	exits   = killerStep("survival.exits")
	patient = killerStep("survival.patient")
)

// exitCode is the exit code of a worker whose step calls os.Exit.
const exitCode = 7

func killerStep(name string) shim.Step[func(context.Context, int) (int, error)] {
	return shim.NewStep(name, shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1000, Initial: time.Millisecond}},
		func(f func(context.Context, int) (int, error)) shim.Handler {
			return shim.Handle(func(ctx context.Context, a addArgs) (int, error) { return f(ctx, a.N) })
		})
}

// registerKiller binds two workflows. The step of the first calls os.Exit. The step of the second
// takes as many milliseconds as its argument.
func registerKiller(w *worker.Worker) {
	exits.Bind(w, func(context.Context, int) (int, error) {
		os.Exit(exitCode)
		return 0, nil
	})
	patient.Bind(w, func(ctx context.Context, ms int) (int, error) {
		select {
		case <-time.After(time.Duration(ms) * time.Millisecond):
			return ms, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	})
	shim.BindWorkflow(w, killer, func(ctx workflow.Context, n int) (int, error) { return shim.Call[int](ctx, exits, addArgs{n}) })
	shim.BindWorkflow(w, beside, func(ctx workflow.Context, n int) (int, error) { return shim.Call[int](ctx, patient, addArgs{n}) })
}

// TestREC4_ARunWhoseStepExitsTheProcessTakesNobodyWithIt proves that a run whose step calls os.Exit
// does not prevent other runs from completing. The test restarts the worker whenever it dies. The
// other runs take longer than a worker lives. The run with the step fails with the code poisoned.
func TestREC4_ARunWhoseStepExitsTheProcessTakesNobodyWithIt(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *site{"sqlite": newSite, "redis": newRedisSite} {
		for _, n := range []int{1, *innocents} {
			t.Run(fmt.Sprintf("%s, %d beside it", name, n), func(t *testing.T) {
				t.Parallel()
				dieAndComplete(open(t), n)
			})
		}
	}
}

func dieAndComplete(s *site, count int) {
	t := s.t
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	begin := func(d workflow.Definition[int, int], ms int) *workflow.Run[int] {
		run, err := d.Start(ctx, s.c, ms)
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	takes := min(300, max(3000/count, 5)) // in milliseconds; a worker that executes the killer run lives for a shorter time
	guilty := begin(killer, 0)            // started first, so that it kills the worker before other runs execute
	var all []*workflow.Run[int]
	for range count {
		all = append(all, begin(beside, takes))
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i, run := range all {
			if got, err := run.Result(ctx); err != nil || got != takes {
				t.Errorf("run %d beside it: got %d, %v", i, got, err)
			}
		}
		_, err := guilty.Result(ctx)
		var failed *workflow.RunError
		if !errors.As(err, &failed) || failed.Code != event.CodePoisoned || !strings.Contains(err.Error(), "workers died") {
			t.Errorf("the run that kills: got %v", err)
		}
	}()
	for deaths := 0; ; {
		p := s.worker()
		select {
		case <-done:
			p.signal(syscall.SIGTERM)
			if err := p.exited(); err != nil {
				t.Errorf("the last worker ended with %v", err)
			}
			t.Logf("%d workers died", deaths)
			if deaths == 0 || deaths > 5 {
				t.Errorf("%d workers died, want at most the 5 that poison a run", deaths)
			}
			s.sound()
			return
		case <-p.done:
			if code := p.cmd.ProcessState.ExitCode(); code != exitCode {
				t.Fatalf("a worker exited with %d (%v)", code, p.err)
			}
			deaths++
		}
	}
}
