package survival

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	lent = declare("survival.lent", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 20, Initial: time.Millisecond}})
	// returned is the hook that completes the step of [Lends].
	returned = workflow.NewHook[string]("returned")
	// Lends is a workflow with a step that is completed from outside. The step is pending when the
	// gate file exists.
	Lends = shim.NewWorkflow[workflow.None, string]("survival.lends", "", shim.WorkflowPolicy{})
)

// registerLends binds [Lends] and its step. The step opens its hook, and returns when the file gate
// exists.
func registerLends(w *worker.Worker, gate string) {
	lent.Bind(w, func(ctx context.Context) (string, error) {
		later, err := step.Later(ctx, returned)
		if err != nil {
			return "", err
		}
		fmt.Println("lent", step.Attempt(ctx))
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			if _, err := os.Stat(gate); err == nil {
				return later.Pending()
			}
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-tick.C:
			}
		}
	})
	shim.BindWorkflow(w, Lends, func(ctx workflow.Context, _ workflow.None) (string, error) { return call(ctx, lent) })
}

// token waits until attempt n of a step has opened its hook, and returns the token.
func (s *site) token(run *workflow.Run[string], n int) string {
	s.t.Helper()
	for e, err := range run.Events(s.ctx(), workflow.Types(event.StepHookCreated)) {
		if err != nil {
			s.t.Fatal(err)
		}
		if e.Attempt == n {
			return e.Token
		}
	}
	s.t.Fatal("the run has ended without that attempt")
	return ""
}

// TestSTEP13_ATokenOutlivesTheProcessThatHandedItOut proves that the token of an attempt remains
// valid if its process is killed before the step returns. The token can complete the step until the
// next attempt begins, and is refused after that.
func TestSTEP13_ATokenOutlivesTheProcessThatHandedItOut(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) *site{"sqlite": newSite, "redis": newRedisSite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			victim := s.worker()
			run, other := s.start(Lends), s.start(Lends)
			tok, old := s.token(run, 1), s.token(other, 1)
			victim.wait("lent 1")
			victim.kill()
			if err := returned.Send(s.ctx(), s.c, tok, "book"); err != nil {
				t.Fatal(err)
			}
			s.open()
			successor := s.worker()
			s.result(run, "book")
			if n := strings.Count(strings.Join(s.log(run), "\n"), event.StepStarted.String()); n != 1 {
				t.Errorf("%d attempts, want the one that was finished", n)
			}

			tok = s.token(other, 2)
			if err := returned.Send(s.ctx(), s.c, old, "pen"); !errors.Is(err, workflow.ErrHookDisposed) {
				t.Errorf("the token of the attempt that was killed: got %v, want ErrHookDisposed", err)
			}
			s.until(other, event.StepPending)
			successor.kill() // after this, no worker has the run
			if err := returned.Send(s.ctx(), s.c, tok, "pencil"); err != nil {
				t.Fatal(err)
			}
			s.worker()
			s.result(other, "pencil")
			s.sound()
		})
	}
}
