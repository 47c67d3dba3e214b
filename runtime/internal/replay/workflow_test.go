package replay_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// noStore is the store of a client whose runs are replayed without a worker. It only returns its
// number of partitions.
type noStore struct{ store.Store }

func (noStore) Partitions() int { return 1 }

// run executes workflow code until it waits for an event from outside.
func run(t *testing.T, code func(workflow.Context) (string, error)) (*replay.Run, *[]event.Event) {
	t.Helper()
	def := &flow.DefinitionSpec{Name: "p.flow"}
	reg := &flow.Registry{}
	reg.BindWorkflow(def, code, flow.CodeOf[workflow.None](def, func(ctx flow.Context, _ workflow.None) (string, error) { return code(workflow.Context(ctx)) }))
	client := (*flow.Client)(workflow.NewClient(noStore{}, workflow.ClientConfig{})).Engine()
	program, short, ok := reg.Program("p.flow", client, slog.Default(), nil)
	if !ok {
		t.Fatal("the workflow is not known")
	}
	pool := &replay.Pool{}
	r := replay.New("wrun_01JGFJJZ00000000000000000A", short, program, pool)
	t.Cleanup(func() { r.Close(); pool.Close() })
	log := &[]event.Event{}
	apply(t, r, log, event.Event{Type: event.RunCreated})
	apply(t, r, log, event.Event{Type: event.RunStarted, By: "w"})
	return r, log
}

func apply(t *testing.T, r *replay.Run, log *[]event.Event, e event.Event) {
	t.Helper()
	e.Time = start
	if err := r.Apply(e); err != nil {
		t.Fatal(err)
	}
	*log = append(*log, r.Take()...)
}

// result returns the result of the run. If the run has not ended or has failed, it describes that.
func result(r *replay.Run, log *[]event.Event) string {
	if !r.Ended() {
		return fmt.Sprintf("not ended: %q", r.Blocked())
	}
	last := (*log)[len(*log)-1]
	if last.Failure != nil {
		return last.Failure.Message
	}
	return string(last.Payload)
}

func TestMap_FailureEndsItemsThatSleep(t *testing.T) {
	r, log := run(t, func(ctx workflow.Context) (string, error) {
		_, err := workflow.Map(ctx, []int{0, 1, 2}, func(ctx workflow.Context, i int) (int, error) {
			if i == 1 {
				return 0, errors.New("item 1 failed")
			}
			return i, workflow.Sleep(ctx, time.Hour)
		})
		return fmt.Sprint(err), nil
	})
	if got := result(r, log); got != `"item 1 failed"` {
		t.Errorf("got %s", got)
	}
}

func TestFutures_AllAnyFirstAndSettled(t *testing.T) {
	fail := errors.New("no")
	future := func(ctx workflow.Context, d time.Duration, v int, err error) *workflow.Future[int] {
		return workflow.Go(ctx, func(ctx workflow.Context) (int, error) {
			_ = workflow.Sleep(ctx, d)
			return v, err
		})
	}
	r, log := run(t, func(ctx workflow.Context) (string, error) {
		slow, good, bad := future(ctx, 3*time.Hour, 1, nil), future(ctx, 2*time.Hour, 2, nil), future(ctx, time.Hour, 3, fail)
		_, firstErr := workflow.First(ctx, slow, good, bad)
		any2, anyErr := workflow.Any(ctx, slow, good, bad)
		_, allErr := workflow.All(ctx, slow, good, bad)
		all, goodErr := workflow.All(ctx, slow, good)
		settled := workflow.Settled(ctx, slow, bad)
		return fmt.Sprint(firstErr, any2, anyErr, allErr, all, goodErr, settled), nil
	})
	for _, ref := range []uint64{5, 4, 3} {
		apply(t, r, log, event.Event{Type: event.WaitCompleted, Ref: ref, Outcome: event.OutcomeDue})
	}
	want := `"no2 \u003cnil\u003e no [1 2] \u003cnil\u003e [{1 \u003cnil\u003e} {3 no}]"`
	if got := result(r, log); strings.ReplaceAll(got, " ", "") != strings.ReplaceAll(want, " ", "") {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestContext_ZeroValueFailsTheRunWithTheFix(t *testing.T) {
	r, log := run(t, func(workflow.Context) (string, error) {
		return "", workflow.Sleep(workflow.Context{}, time.Hour)
	})
	if got := result(r, log); !strings.Contains(got, "zero Context: workflow code gets its Context from the runtime") {
		t.Errorf("got %s", got)
	}
}

func TestContext_OfAnotherBranchFailsTheRunWithBothNames(t *testing.T) {
	r, log := run(t, func(ctx workflow.Context) (string, error) {
		_, err := workflow.Go(ctx, func(workflow.Context) (int, error) { return 0, workflow.Sleep(ctx, time.Hour) }).Get(ctx)
		return "", err
	})
	if got := result(r, log); !strings.Contains(got, "panic in branch flow/go#1: workflow: branch flow/go#1 uses the context of branch flow") {
		t.Errorf("got %s", got)
	}
}

func TestContext_DurableOperationInRecordFailsTheRun(t *testing.T) {
	r, log := run(t, func(ctx workflow.Context) (string, error) {
		return workflow.Record(ctx, func() (string, error) { return "", workflow.Sleep(ctx, time.Hour) })
	})
	if got := result(r, log); !strings.Contains(got, "inside of workflow.Record (flow/record#1)") {
		t.Errorf("got %s", got)
	}
}

func TestPanic_InABranchOfUsersNamesWhereItWasOpened(t *testing.T) {
	r, log := run(t, func(ctx workflow.Context) (string, error) {
		return workflow.Go(ctx, func(workflow.Context) (string, error) { panic("boom") }).Get(ctx)
	})
	f := (*log)[len(*log)-1].Failure
	if !r.Ended() || f == nil || !strings.Contains(f.Stack, "branch flow/go#1 was opened at\n\t") || strings.Count(f.Stack, "workflow_test.go:") < 2 {
		t.Errorf("failure %+v", f)
	}
}
