package steps_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	errSoldOut = errors.New("sold out")
	errPrivate = errors.New("nobody registered this")
)

// outageError is a registered error type with an exported field.
type outageError struct{ Region string }

func (e *outageError) Error() string { return "outage in " + e.Region }

// outageCopyError is registered under the same name as outageError. A client package can declare
// such a type instead of importing the original.
type outageCopyError struct{ Region string }

func (e *outageCopyError) Error() string { return fmt.Sprintf("%+v", *e) }

// listError is an error type whose values are not comparable.
type listError []string

func (e listError) Error() string { return fmt.Sprint([]string(e)) }

func init() {
	shim.RegisterSentinel("test.errSoldOut", errSoldOut)
	shim.RegisterError[*outageError]("test.outageError")
	shim.RegisterError[*outageCopyError]("test.outageError")
	shim.RegisterError[listError]("test.listError")
}

// raised contains errors that a step returns, and checks that callers of the step can make.
var raised = []struct {
	name  string
	err   error
	check func(error) bool
}{
	{"sentinel", errSoldOut, func(err error) bool { return errors.Is(err, errSoldOut) }},
	{"sentinel wrapped", fmt.Errorf("a: %w", errSoldOut), func(err error) bool { return errors.Is(err, errSoldOut) }},
	{"sentinel joined", errors.Join(errPrivate, fmt.Errorf("a: %w", errSoldOut)), func(err error) bool { return errors.Is(err, errSoldOut) }},
	{"not that sentinel", errPrivate, func(err error) bool { return !errors.Is(err, errSoldOut) }},
	{"unregistered sentinel", errPrivate, func(err error) bool {
		return !errors.Is(err, errPrivate) && flowtest.ContainsAll(err.Error(), "nobody registered")
	}},
	{"of the standard library", fmt.Errorf("read: %w", io.ErrUnexpectedEOF), func(err error) bool { return errors.Is(err, io.ErrUnexpectedEOF) }},
	{"registered type", fmt.Errorf("a: %w", &outageError{"eu"}), func(err error) bool {
		var e *outageError
		return errors.As(err, &e) && e.Region == "eu"
	}},
	{"its copy", &outageError{"eu"}, func(err error) bool {
		var e *outageCopyError
		return errors.As(err, &e) && e.Region == "eu"
	}},
	{"unregistered type of exported fields", &declinedError{7}, func(err error) bool {
		var e *declinedError
		return errors.As(err, &e) && e.Code == 7
	}},
	{"uncomparable type", listError{"a", "b"}, func(err error) bool {
		var e listError
		return errors.As(err, &e) && len(e) == 2 && !errors.Is(err, listError{"a", "b"})
	}},
	{"not that type", &outageError{"eu"}, func(err error) bool {
		var e *declinedError
		return !errors.As(err, &e) && e == nil
	}},
}

func TestRUN4_ErrorsAreToldApartThroughStepsRunsAndReopenedStores(t *testing.T) {
	passes := flowtest.Flow[int, int]("passes")
	path := filepath.Join(t.TempDir(), "flows.db")
	w := flowtest.NewWorld(t, flowtest.OpenSQLite(t, path), workflow.ClientConfig{})
	raises := flowtest.AStep[int, int]("raises", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}})
	w.Work(worker.Config{}, raises.As(func(_ context.Context, n int) (int, error) { return 0, raised[n].err }),
		flowtest.As(passes, func(ctx workflow.Context, n int) (int, error) {
			_, err := raises.Call(ctx, n)
			if !raised[n].check(err) {
				t.Errorf("%s: in workflow code: %v does not match", raised[n].name, err)
			}
			return 0, fmt.Errorf("pass: %w", err)
		}))
	var ids []workflow.RunID
	for n, tt := range raised {
		run := flowtest.Start(w, passes, n)
		err := flowtest.Failure(w, run)
		if !tt.check(err) {
			t.Errorf("%s: through Result: %v does not match", tt.name, err)
		}
		var failed *workflow.StepError
		if !errors.As(err, &failed) || failed.Run != run.ID() || failed.Step != "test.raises" || failed.Key != "passes/test.raises#1" ||
			failed.Attempts != 1 || failed.Code != event.CodeError || !tt.check(failed) {
			t.Errorf("%s: the *StepError in it: %+v", tt.name, failed)
		}
		ids = append(ids, run.ID())
	}
	again := flowtest.NewWorld(t, flowtest.OpenSQLite(t, path), workflow.ClientConfig{})
	for n, tt := range raised {
		if err := flowtest.Failure(again, passes.Get(again.Client, ids[n])); !tt.check(err) {
			t.Errorf("%s: after the store was opened again: %v does not match", tt.name, err)
		}
	}
}

func TestRUN4_ARunErrorSaysWhatHappenedToWhichRun(t *testing.T) {
	fails := flowtest.Flow[int, int]("fails")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(fails, func(workflow.Context, int) (int, error) { return 0, fmt.Errorf("a: %w", errSoldOut) }))
	run := flowtest.Start(w, fails, 1)
	got := flowtest.Failure(w, run)
	want := workflow.RunError{Run: run.ID(), Workflow: "test.fails", Status: workflow.StatusFailed, Code: event.CodeError, Reason: "a: sold out"}
	fields := workflow.RunError{Run: got.Run, Workflow: got.Workflow, Status: got.Status, Code: got.Code, Reason: got.Reason}
	if diff := cmp.Diff(want, fields, cmp.AllowUnexported(workflow.RunError{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !flowtest.ContainsAll(got.Error(), string(run.ID()), "test.fails", "failed", "a: sold out") || got.Stack() != "" {
		t.Errorf("it prints as %q, with stack %q", got, got.Stack())
	}
}

// TestRUN4_ErrTimeoutAndErrCanceledStopAtTheBoundaryOfARun proves that the errors ErrTimeout and
// ErrCanceled of a run do not match for the caller of the run. Otherwise the caller would take them
// for its own timeout or cancel.
func TestRUN4_ErrTimeoutAndErrCanceledStopAtTheBoundaryOfARun(t *testing.T) {
	inner := flowtest.Flow[string, int]("inner")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(inner, func(ctx workflow.Context, how string) (int, error) {
		switch how {
		case "timeout":
			_, err := flowtest.Wake.Receive(ctx, workflow.Timeout(1))
			if !errors.Is(err, workflow.ErrTimeout) {
				t.Errorf("inside: %v", err)
			}
			return 0, err
		case "own cancel":
			ctx, cancel := workflow.WithCancel(ctx)
			cancel()
			return 0, workflow.Sleep(ctx, 1)
		}
		return 0, workflow.ErrCanceled
	}))
	for _, how := range []string{"timeout", "own cancel", "says so"} {
		err := flowtest.Failure(w, flowtest.Start(w, inner, how))
		if errors.Is(err, workflow.ErrTimeout) || errors.Is(err, workflow.ErrCanceled) || err.Status != workflow.StatusFailed {
			t.Errorf("%s: %v matches, or is not failed", how, err)
		}
	}
}

func burst(s []int) int { return s[len(s)] }

func TestRUN4_APanicInAWorkflowFailsTheRunWithTheUsersLine(t *testing.T) {
	bursts := flowtest.Flow[string, int]("bursts")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Runs, flowtest.As(bursts, func(ctx workflow.Context, where string) (int, error) {
		if where == "branch" {
			f := workflow.Go(ctx, func(workflow.Context) (int, error) { return burst(nil), nil })
			return f.Get(ctx)
		}
		return burst(nil), nil
	}))
	for where, path := range map[string]string{"main": "branch bursts:", "branch": "branch bursts/go#1:"} {
		err := flowtest.Failure(w, flowtest.Start(w, bursts, where))
		if err.Code != event.CodePanic || !flowtest.ContainsAll(err.Reason, path, "index out of range") {
			t.Errorf("%s: got code %s, %v", where, err.Code, err)
		}
		if !flowtest.ContainsAll(err.Stack(), "steps_test.burst", "error_test.go") {
			t.Errorf("%s: the stack does not name the user's line:\n%s", where, err.Stack())
		}
	}
	if _, err := flowtest.Echo.Execute(w.Ctx, w.Client, "alive"); err != nil {
		t.Error(err)
	}
}
