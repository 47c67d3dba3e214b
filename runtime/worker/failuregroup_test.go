package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	shipping = flowtest.Flow[int, int]("shipping")
	ship     = flowtest.AStep[int, int]("shipping.ship", shim.Policy{Retry: forEver})
	notify   = flowtest.AStep[int, int]("shipping.notify", shim.Policy{Retry: forEver})
	pay      = flowtest.AStep[int, int]("shipping.pay", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}})

	forEver = workflow.RetryPolicy{Attempts: 1_000_000, Initial: time.Millisecond, Max: time.Millisecond}
)

// flaky is the code of a step. It fails with text if text is set.
type flaky struct{ text atomic.Pointer[string] }

func (f *flaky) fails(text string) *flaky { f.text.Store(&text); return f }

func (f *flaky) do(_ context.Context, n int) (int, error) {
	if text := f.text.Load(); text != nil && *text != "" {
		return 0, fmt.Errorf("%s %d", *text, n)
	}
	return n, nil
}

// inGroup waits until a run is in a failure group of the given kind, step and text; an empty kind
// means no group.
func inGroup(w *flowtest.World, run flowtest.Follows, kind ops.FailureKind, step, text string) {
	w.T.Helper()
	w.Eventually(fmt.Sprintf("the run is in trouble: %s %s %q", kind, step, text), func() bool {
		id := w.Record(run).Group
		if kind == "" || id == "" {
			return kind == "" && id == ""
		}
		page, err := ops.New(w.Client).FailureGroups(w.Ctx, ops.FailureFilter{Groups: []string{id}})
		return err == nil && len(page.Groups) == 1 && page.Groups[0].Kind == kind && page.Groups[0].Step == step && page.Groups[0].Text == text
	})
}

func failureGroups(w *flowtest.World, f ops.FailureFilter) []ops.FailureGroup {
	w.T.Helper()
	page, err := ops.New(w.Client).FailureGroups(w.Ctx, f)
	if err != nil {
		w.T.Fatal(err)
	}
	return page.Groups
}

func TestOPS1_ARunIsInTroubleWhileAStepIsRetriedAndNoLonger(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		busy := new(flaky).fails("busy: order")
		w.Work(worker.Config{}, ship.As(busy.do), flowtest.As(shipping, afterwards(ship, 1)))
		one, other := flowtest.Start(w, shipping, 1), flowtest.Start(w, shipping, 2)
		inGroup(w, one, ops.FailureRetrying, "test.shipping.ship", "busy: order §")
		inGroup(w, other, ops.FailureRetrying, "test.shipping.ship", "busy: order §")
		w.Reach(one, event.StepRetrying, 5)
		groups := failureGroups(w, ops.FailureFilter{})
		if len(groups) != 1 || groups[0].Open != 2 || groups[0].Total != 2 || groups[0].Workflow != "test.shipping" {
			t.Errorf("groups: got %+v, want one with both runs, each counted once", groups)
		}
		if got := w.List(workflow.Filter{Group: groups[0].Group}); len(got) != 2 {
			t.Errorf("runs of the group: got %v, want both", got)
		}
		busy.fails("closed: order")
		inGroup(w, one, ops.FailureRetrying, "test.shipping.ship", "closed: order §")
		busy.fails("")
		inGroup(w, one, "", "", "")
		inGroup(w, other, "", "", "")
		if got := w.List(workflow.Filter{Failing: true}); len(got) != 0 {
			t.Errorf("runs in trouble: got %v, want none", got)
		}
		for _, run := range []*workflow.Run[int]{one, other} {
			if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
				t.Fatal(err)
			}
			flowtest.Result(w, run)
		}
		w.StopWorkers()
		w.Healthy()
	})
}

func TestOPS1_OfTwoStepsThatAreRetriedTheFirstLabelsTheRun(t *testing.T) {
	w := flowtest.NewMemory(t)
	first, second := new(flaky).fails("first"), new(flaky).fails("second")
	w.Work(worker.Config{}, ship.As(first.do), notify.As(second.do), flowtest.As(shipping, func(ctx workflow.Context, n int) (int, error) {
		a := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return ship.Call(ctx, n) })
		b := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return notify.Call(ctx, n) })
		if _, err := b.Get(ctx); err != nil {
			return 0, err
		}
		return a.Get(ctx)
	}))
	run := flowtest.Start(w, shipping, 1)
	w.Reach(run, event.StepRetrying, 20)
	inGroup(w, run, ops.FailureRetrying, "test.shipping.ship", "first §")
	w.Reach(run, event.StepRetrying, 100)
	for _, g := range failureGroups(w, ops.FailureFilter{}) {
		if g.Total > 2 { // The second step may have failed once before the first.
			t.Errorf("the run came %d times into group %+v: it went to and fro", g.Total, g)
		}
	}
	first.fails("")
	inGroup(w, run, ops.FailureRetrying, "test.shipping.notify", "second §")
	second.fails("")
	flowtest.Result(w, run)
	inGroup(w, run, "", "", "")
}

func TestOPS1_RunsThatHaveFailedForTheSameReasonAreInOneGroup(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		declined := new(flaky).fails("declined: card")
		w.Work(worker.Config{}, pay.As(declined.do), flowtest.As(shipping, func(ctx workflow.Context, n int) (int, error) {
			if n > 3 {
				return 0, errors.New("too many")
			}
			return pay.Call(ctx, n)
		}))
		for n := range 5 {
			_, err := flowtest.Start(w, shipping, n).Result(w.Ctx)
			if err == nil {
				t.Fatal("a run has completed")
			}
		}
		w.StopWorkers()
		of := failureGroups(w, ops.FailureFilter{Kinds: []ops.FailureKind{ops.FailureFailed}, Step: "test.shipping.pay"})
		if len(of) != 1 || of[0].Open != 4 || of[0].Total != 4 || of[0].Text != "declined: card §" {
			t.Errorf("groups of the step: got %+v, want one of 4 runs that a card has been declined", of)
		}
		if all := failureGroups(w, ops.FailureFilter{}); len(all) != 2 || all[0].Total+all[1].Total != 5 {
			t.Errorf("all groups: got %+v, want that and one of one run: nothing was retried", all)
		}
		w.Healthy()
	})
}

func TestOPS1_ABlockedRunIsInTroubleUntilCodeThatFitsGoesOnWithIt(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		first := w.Work(worker.Config{}, reserve.As(twice), flowtest.As(deployed, afterwards(reserve, 2)))
		runs := []*workflow.Run[int]{flowtest.Start(w, deployed, 4), flowtest.Start(w, deployed, 5)}
		for _, run := range runs {
			w.Reach(run, event.WaitCreated, 1)
		}
		first.Stop()
		second := w.Work(worker.Config{}, charge.As(twice), flowtest.As(deployed, afterwards(charge, 2)))
		for _, run := range runs {
			if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
				t.Fatal(err)
			}
			w.Blocked(run)
			inGroup(w, run, ops.FailureBlocked, "", "log: step_created test.deploy.reserve, code: step_created test.deploy.charge")
		}
		if groups := failureGroups(w, ops.FailureFilter{}); len(groups) != 1 || groups[0].Open != 2 {
			t.Errorf("groups: got %+v, want one with both runs", groups)
		}
		second.Stop()
		w.Work(worker.Config{}, reserve.As(twice), flowtest.As(deployed, afterwards(reserve, 2)))
		for _, run := range runs {
			w.Reach(run, event.WaitCreated, 2)
			inGroup(w, run, "", "", "")
			if err := flowtest.Wake.Send(w.Ctx, run, "go"); err != nil {
				t.Fatal(err)
			}
			flowtest.Result(w, run)
		}
		w.StopWorkers()
		w.Healthy()
	})
}

// TestOPS1_ARunLeavesItsGroupWhileAnotherStepIsUnderWay proves that a run leaves its failure group
// when the failing step succeeds, while another step of the run is running. The worker owns the run
// all the time, so it must remember the label that it has set.
func TestOPS1_ARunLeavesItsGroupWhileAnotherStepIsUnderWay(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		busy, done := new(flaky).fails("busy"), make(chan struct{})
		w.Work(worker.Config{}, ship.As(busy.do), notify.As(func(ctx context.Context, n int) (int, error) {
			select {
			case <-done:
			case <-ctx.Done():
			}
			return n, ctx.Err()
		}), flowtest.As(shipping, func(ctx workflow.Context, n int) (int, error) {
			long := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return notify.Call(ctx, n) })
			if _, err := ship.Call(ctx, n); err != nil {
				return 0, err
			}
			return long.Get(ctx)
		}))
		run := flowtest.Start(w, shipping, 1)
		inGroup(w, run, ops.FailureRetrying, "test.shipping.ship", "busy §")
		busy.fails("")
		inGroup(w, run, "", "", "")
		if n := w.Record(run).Fence.Epoch; n != 1 {
			t.Errorf("the run was claimed %d times, want once", n)
		}
		close(done)
		flowtest.Result(w, run)
		w.StopWorkers()
		w.Healthy()
	})
}

// TestOPS1_AnotherWorkerKnowsTheLabelOfARun proves that a worker clears the failure group that
// another worker has set.
func TestOPS1_AnotherWorkerKnowsTheLabelOfARun(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		busy := new(flaky).fails("busy")
		first := w.Work(worker.Config{}, ship.As(busy.do), flowtest.As(shipping, ship.Call))
		run := flowtest.Start(w, shipping, 1)
		inGroup(w, run, ops.FailureRetrying, "test.shipping.ship", "busy §")
		first.Stop()
		inGroup(w, run, ops.FailureRetrying, "test.shipping.ship", "busy §")
		w.Work(worker.Config{}, ship.As(busy.do), flowtest.As(shipping, ship.Call))
		before := w.Record(run).Seq
		w.Eventually("the second worker retries it", func() bool { return w.Record(run).Seq > before+6 })
		inGroup(w, run, ops.FailureRetrying, "test.shipping.ship", "busy §")
		busy.fails("")
		flowtest.Result(w, run)
		inGroup(w, run, "", "", "")
	})
}
