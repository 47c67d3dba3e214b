package admintest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// parent starts children, and ends after all children have ended.
var parent = shim.NewWorkflow[int, int]("admintest.parent", "n", shim.WorkflowPolicy{Children: 2000})

// long calls a step n times, one after the other.
var long = shim.NewWorkflow[int, int]("admintest.long", "n", shim.WorkflowPolicy{})

// again fails temporarily, and its next attempt is due in an hour. hang does not return before the
// scene ends.
var (
	again = shim.NewStep("admintest.again", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 5, Initial: time.Hour}}, plain)
	hang  = shim.NewStep("admintest.hang", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}}, plain)
	// failing calls the step again or hang, depending on its input.
	failing = shim.NewWorkflow[string, string]("admintest.failing", "what", shim.WorkflowPolicy{})
)

func plain(f func(context.Context, string) (string, error)) shim.Handler {
	return shim.Handle(func(ctx context.Context, what string) (string, error) { return f(ctx, what) })
}

// bindStates binds the workflows of this file to a worker. It returns a function that ends the
// steps that hang.
func bindStates(w *worker.Worker) (release func()) {
	over := make(chan struct{})
	again.Bind(w, func(context.Context, string) (string, error) { return "", errors.New("503 from the carrier") })
	hang.Bind(w, func(ctx context.Context, what string) (string, error) {
		select {
		case <-over:
		case <-ctx.Done():
		}
		return what, nil
	})
	shim.BindWorkflow(w, failing, func(ctx workflow.Context, what string) (string, error) {
		if what == "again" {
			return shim.Call[string](ctx, again, what)
		}
		return shim.Call[string](ctx, hang, what)
	})
	shim.BindWorkflow(w, parent, func(ctx workflow.Context, n int) (int, error) {
		var all []*workflow.Child[string]
		for range n {
			all = append(all, order.StartChild(ctx, "good"))
		}
		for _, child := range all {
			if _, err := child.Get(ctx); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	shim.BindWorkflow(w, long, func(ctx workflow.Context, n int) (int, error) {
		for range n {
			if _, err := shim.Call[string](ctx, label, "good"); err != nil {
				return 0, err
			}
		}
		return n, nil
	})
	return sync.OnceFunc(func() { close(over) })
}

// Retrying starts a run, and waits until a retry of one of its steps is due in an hour.
func (s *Scene) Retrying(id string) string {
	s.Helper()
	return s.failing("again", id, func(r *admin.Run) bool { return len(r.Retries) > 0 && !r.Retries[0].Next.IsZero() })
}

// Busy starts a run, and waits until one of its steps is in progress. The step does not return
// before the scene ends.
func (s *Scene) Busy(id string) string {
	s.Helper()
	return s.failing("hang", id, func(r *admin.Run) bool { return r.Status == "running" && r.Events > 3 })
}

func (s *Scene) failing(what, id string, is func(*admin.Run) bool) string {
	s.Helper()
	run, err := failing.Start(s.ctx(), s.Client, what, workflow.WithID(id))
	if err != nil {
		s.Fatal(err)
	}
	for ctx, ref := s.ctx(), string(run.ID()); ; {
		r, err := s.Direct.Run(ctx, ref)
		if err != nil {
			s.Fatal(err)
		}
		if is(&r) {
			return ref
		}
	}
}

// Long starts a run that calls the given number of steps one after the other, and waits until the
// run has ended. Each step adds three events to the log.
func (s *Scene) Long(steps int, id string) string {
	s.Helper()
	run, err := long.Start(s.ctx(), s.Client, steps, workflow.WithID(id))
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(s.Context(), 3*time.Minute)
	defer cancel()
	if r, err := s.Direct.Wait(ctx, string(run.ID()), 3*time.Minute); err != nil || r.Status != "completed" {
		s.Fatalf("the run of %d steps is %s (%+v), %v", steps, r.Status, r.Failure, err)
	}
	return string(run.ID())
}

// Parent starts a run with n children, and waits until all of them have ended.
func (s *Scene) Parent(n int, id string) string {
	s.Helper()
	run, err := parent.Start(s.ctx(), s.Client, n, workflow.WithID(id))
	if err != nil {
		s.Fatal(err)
	}
	if r, err := s.Direct.Wait(s.ctx(), string(run.ID()), time.Minute); err != nil || r.Status != "completed" {
		s.Fatalf("the run with %d children is %s (%+v), %v", n, r.Status, r.Failure, err)
	}
	return string(run.ID())
}
