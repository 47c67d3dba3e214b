package reruns_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	careful = flowtest.AStep[int, int]("careful", shim.Policy{NonIdempotent: true, Timeout: 20 * time.Millisecond, Retry: workflow.RetryPolicy{Attempts: 1}})
	distant = flowtest.AStep[int, int]("distant", shim.Policy{NonIdempotent: true, Timeout: 20 * time.Millisecond, Retry: workflow.RetryPolicy{Attempts: 1}, Queue: "far"})
)

// TestRUN17_WhatAnotherRunWouldNotMendIsNotTriedAgain proves that a run is not rerun if another run
// could not succeed, or if its policy does not apply to the way in which it ended.
func TestRUN17_WhatAnotherRunWouldNotMendIsNotTriedAgain(t *testing.T) {
	late := shim.NewWorkflow[int, int]("test.late", "in", shim.WorkflowPolicy{Rerun: often, StartWithin: time.Millisecond})
	tests := map[string]struct {
		code func(ctx workflow.Context, n int) (int, error)
		opts []workflow.StartOption
		then func(w *flowtest.World, run *workflow.Run[int])
	}{
		"a fatal error": {code: func(ctx workflow.Context, _ int) (int, error) { return charge.Call(ctx, -1) }},
		"undone work": {code: func(ctx workflow.Context, n int) (int, error) {
			workflow.Compensate(ctx, func(ctx workflow.Context) error { _, err := reserve.Call(ctx, -n); return err })
			return charge.Call(ctx, n)
		}},
		"an attempt that must happen once": {code: func(ctx workflow.Context, n int) (int, error) { return careful.Call(ctx, n) }},
		"the same, elsewhere":              {code: func(ctx workflow.Context, n int) (int, error) { return distant.Call(ctx, n) }},
		"a swallowed cancel": {code: func(ctx workflow.Context, n int) (int, error) {
			_, _ = flowtest.Wake.Receive(ctx)
			return 0, errBusy
		}, then: func(w *flowtest.World, run *workflow.Run[int]) {
			w.Reach(run, event.WaitCreated, 1)
			flowtest.Order(w.T, run.Cancel(w.Ctx, "enough"))
		}},
		"debug mode": {code: order, opts: []workflow.StartOption{workflow.WithDebug()}, then: func(w *flowtest.World, run *workflow.Run[int]) {
			flowtest.Order(w.T, run.Resume(w.Ctx))
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
				d := rerun[int, int]("hopeless", often)
				var s shop
				s.fails.Store(100)
				hang := func(ctx context.Context, _ int) (int, error) { <-ctx.Done(); return 0, ctx.Err() }
				steps := []flowtest.Binding{careful.As(hang), distant.As(hang), s.steps()[0], charge.As(func(_ context.Context, n int) (int, error) {
					if n < 0 {
						return 0, step.Fatal(errBusy)
					}
					return 0, errBusy
				})}
				w.Work(worker.Config{Queues: []string{"default", "far"}}, append(steps, flowtest.As(d, tt.code))...)
				run := flowtest.Start(w, d, 1, tt.opts...)
				if tt.then != nil {
					tt.then(w, run)
				}
				_ = flowtest.Failure(w, run)
				stays(w, run)
			})
		})
	}
	t.Run("what never began", func(t *testing.T) {
		flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
			run := flowtest.Start(w, late, 1)
			w.Eventually("it is late", func() bool { return w.Store.Clock().Now().Sub(run.ID().Time()) > 5*time.Millisecond })
			w.Work(worker.Config{}, flowtest.As(late, func(_ workflow.Context, n int) (int, error) { return n, nil }))
			_ = flowtest.Failure(w, run)
			stays(w, run)
		})
	})
}

// stays fails the test unless a run has failed without a rerun. The last event of the run, whose
// commit decides about the rerun, must not announce one.
func stays(w *flowtest.World, run flowtest.Follows) {
	w.T.Helper()
	sound(w)
	log := w.Log(run)
	end := &log[len(log)-1]
	if end.Type != event.RunFailed || !end.Due.IsZero() || end.Attempt != 0 || w.Record(run).Rerun != "" {
		w.T.Errorf("the run ends with %s, due %v, as %q; want a failure that stays", end.Type, end.Due, w.Record(run).Rerun)
	}
}

func TestRUN17_AChildIsNotTriedAgainButItsParentIs(t *testing.T) {
	child, parent := rerun[int, int]("child", often), rerun[int, int]("parent", often)
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var s shop
		s.fails.Store(1)
		w.Work(worker.Config{}, append(s.steps(), flowtest.As(child, order), flowtest.As(parent, func(ctx workflow.Context, n int) (int, error) {
			return child.Child(ctx, n)
		}))...)
		run := flowtest.Start(w, parent, 1)
		again := next(w, parent, run)
		if got := flowtest.Result(w, again); got != 20 || s.reserved.Load() != 2 {
			t.Errorf("result %d, reserved %d times, want 20 and 2: by each child", got, s.reserved.Load())
		}
		sound(w)
		for _, e := range flowtest.Filter(w.Log(run), event.ChildCreated) {
			if id := w.Record(w.Client.Run(e.Next)).Rerun; id != "" {
				t.Errorf("the child was tried again as %s", id)
			}
		}
	})
}

func TestRUN17_ARetryByACallerBeginsTheCountAnew(t *testing.T) {
	d := rerun[int, int]("anew", workflow.RetryPolicy{Attempts: 2, Initial: time.Millisecond, Max: time.Second})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var s shop
		s.fails.Store(3)
		w.Work(worker.Config{}, append(s.steps(), flowtest.As(d, order))...)
		last := next(w, d, flowtest.Start(w, d, 1))
		_ = flowtest.Failure(w, last)
		byHand, err := last.Retry(w.Ctx)
		flowtest.Order(t, err)
		_ = flowtest.Failure(w, byHand)
		again := next(w, d, byHand)
		if got := flowtest.Result(w, again); got != 20 || s.reserved.Load() != 1 {
			t.Errorf("result %d, reserved %d times", got, s.reserved.Load())
		}
		if a, b := w.Log(byHand)[0].Spec.Reruns, w.Log(again)[0].Spec.Reruns; a != 0 || b != 1 {
			t.Errorf("the retry is rerun %d, and what followed it %d, want 0 and 1", a, b)
		}
		sound(w)
	})
}

// before returns a store that calls happens once, when the failure of a run is durable and its
// rerun has not been created.
func before(w *flowtest.World, happens func(failed event.RunID)) *flowtest.Between {
	done := false
	return &flowtest.Between{Store: w.Store, Around: func(ctx context.Context, op string, req any, do func() error) error {
		if all, ok := req.([]store.Create); ok && !done {
			for i := range all {
				if all[i].RerunOf != "" {
					done = true
					happens(all[i].RerunOf)
				}
			}
		}
		return do()
	}}
}

func TestRUN17_ARerunWhoseWorkflowIDIsTakenIsGivenUpWithAWarning(t *testing.T) {
	d := rerun[int, int]("taken", often)
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var s shop
		s.fails.Store(1)
		var other *workflow.Run[int]
		works := w.WorkOn(before(w, func(event.RunID) {
			other = flowtest.Start(w, d, 5, workflow.WithID("order"), workflow.WithHold())
		}), worker.Config{}, append(s.steps(), flowtest.As(d, order))...)
		run := flowtest.Start(w, d, 1, workflow.WithID("order"))
		_ = flowtest.Failure(w, run)
		w.Eventually("it is logged", func() bool { return len(w.Lines("run has failed, and is not rerun as its workflow declares")) > 0 })
		flowtest.Order(t, other.Release(w.Ctx))
		if got := flowtest.Result(w, other); got != 60 {
			t.Errorf("the other run: %d", got)
		}
		works.Stop()
		sound(w)
		if lines := w.Lines("run has failed, and is not rerun as its workflow declares"); len(lines) != 1 || !strings.Contains(lines[0], string(other.ID())) {
			t.Errorf("the log has %q, want one line that names run %s", lines, other.ID())
		}
		if w.Record(run).Rerun != "" {
			t.Errorf("it was tried again as %s", w.Record(run).Rerun)
		}
		if again, err := run.Retry(w.Ctx); err != nil || w.Record(again).Rerun != "" { // a manual retry succeeds after the workflow ID has become free
			t.Errorf("retry by hand: %v", err)
		}
	})
}

func TestRUN17_ARerunBesideAnActiveSingletonIsGivenUpWithAWarning(t *testing.T) {
	alone := shim.NewWorkflow[int, int]("test.alone", "in", shim.WorkflowPolicy{
		Rerun: often, Singleton: shim.Singleton(func(n int) string { return shim.Key(n) }),
	})
	const message = "run has failed, and is not rerun as its workflow declares"
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var s shop
		s.fails.Store(1)
		var active *workflow.Run[int]
		st := before(w, func(event.RunID) {
			active = flowtest.Start(w, alone, 1, workflow.WithHold())
		})
		st.Answers = func(_ []store.Commit, got []store.Committed) { // the relay may get a record both from the commit and from the outbox
			for i := range got {
				got[i].Sent = append(got[i].Sent, got[i].Sent...)
			}
		}
		works := w.WorkOn(st, worker.Config{}, append(s.steps(), flowtest.As(alone, order))...)
		run := flowtest.Start(w, alone, 1)
		_ = flowtest.Failure(w, run)
		w.Eventually("it is logged", func() bool { return len(w.Lines(message)) > 0 })
		flowtest.Order(t, active.Release(w.Ctx))
		if got := flowtest.Result(w, active); got != 20 {
			t.Errorf("the active run: %d", got)
		}
		other := flowtest.Start(w, alone, 7) // a run of another key; while it is executed, the relay reads the outbox again
		if got := flowtest.Result(w, other); got != 80 {
			t.Errorf("a run of another key: %d", got)
		}
		works.Stop()
		sound(w)
		if lines := w.Lines(message); len(lines) != 1 || !flowtest.ContainsAll(lines[0], string(run.ID()), string(active.ID()), "retry it by hand") {
			t.Errorf("the log has %q, want one line that names the runs %s and %s", lines, run.ID(), active.ID())
		}
		if id := w.Record(run).Rerun; id != "" {
			t.Errorf("it was tried again as %s", id)
		}
		if diff := cmp.Diff([]workflow.RunID{run.ID()}, w.List(workflow.Filter{Failing: true})); diff != "" {
			t.Errorf("open failures (-want +got):\n%s", diff)
		}
	})
}

func TestRUN17_ARunThatWasDeletedIsNotTriedAgain(t *testing.T) {
	d := rerun[int, int]("deleted", often)
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var s shop
		s.fails.Store(1)
		gone := make(chan struct{})
		loads := &flowtest.Between{Store: w.Store}
		loads.Around = func(ctx context.Context, op string, req any, do func() error) error {
			if all, ok := req.([]store.Load); ok && len(all) == 1 && all[0].Limit == 0 && !all[0].Inbox {
				if r, err := w.Store.Load(w.Ctx, []store.Load{{Run: all[0].Run, Limit: -1}}); err == nil && r[0].Err == nil && r[0].Record.QueueState == store.StateEnded {
					if err := ops.New(w.Client).Delete(w.Ctx, all[0].Run); err == nil {
						close(gone)
					}
				}
			}
			return do()
		}
		works := w.WorkOn(loads, worker.Config{}, append(s.steps(), flowtest.As(d, order))...)
		run := flowtest.Start(w, d, 1)
		w.Await("the run is deleted before its rerun is made", gone)
		works.Stop()
		if open := w.Open(); len(open) > 0 {
			t.Errorf("run %s was deleted, and %v is open", run.ID(), open)
		}
		sound(w)
	})
}

func TestRUN17_ThePolicyIsThatOfTheWorkerThatTheRunFailsOn(t *testing.T) {
	with, without := rerun[int, int]("deployed", often), rerun[int, int]("deployed", workflow.RetryPolicy{})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var s shop
		s.fails.Store(100)
		old := w.Work(worker.Config{}, append(s.steps(), flowtest.As(without, order))...)
		first := flowtest.Start(w, without, 1)
		_ = flowtest.Failure(w, first)
		held := flowtest.Start(w, without, 1, workflow.WithHold())
		old.Stop()
		newer := w.Work(worker.Config{}, append(s.steps(), flowtest.As(with, order))...)
		flowtest.Order(t, held.Release(w.Ctx))
		again := next(w, with, held)
		again = next(w, with, again)
		_ = flowtest.Failure(w, again)
		newer.Stop()
		if w.Record(first).Rerun != "" {
			t.Error("a run that failed before there was a policy was tried again")
		}
		sound(w)
	})
}

// earlier is the store of a worker of an earlier release. Its outbox returns records of reruns in a
// form that the worker cannot read.
type earlier struct{ store.Store }

func (s earlier) Unwrap() store.Store { return s.Store }

func (s earlier) Outbox(ctx context.Context, partition, limit int) ([]store.Outgoing, time.Time, error) {
	ob, _ := store.As[store.Outbox](s.Store)
	all, next, err := ob.Outbox(ctx, partition, limit)
	for i := range all {
		var body map[string]json.RawMessage
		if json.Unmarshal(all[i].Body, &body) == nil && body["rerun"] != nil {
			all[i].Body = []byte(`{"later":true}`)
		}
	}
	return all, next, err
}

func TestRUN17_AWorkerOfAnEarlierReleaseLeavesTheRerunToOthers(t *testing.T) {
	d := rerun[int, int]("rolling", often)
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		var s shop
		s.fails.Store(1)
		// The worker of this release fails to create the rerun and is stopped.
		failed := make(chan struct{})
		silent := &flowtest.Between{Store: w.Store, Around: func(ctx context.Context, op string, req any, do func() error) error {
			if all, ok := req.([]store.Create); ok && len(all) == 1 && all[0].RerunOf != "" {
				select {
				case <-failed:
				default:
					close(failed)
				}
				return errors.New("the network is gone")
			}
			return do()
		}}
		first := w.WorkOn(silent, worker.Config{}, append(s.steps(), flowtest.As(d, order))...)
		run := flowtest.Start(w, d, 1)
		w.Await("the rerun is due to be made", failed)
		first.Stop()
		other := rerun[int, int]("other", often)
		old := w.WorkOn(earlier{w.Store}, worker.Config{}, flowtest.As(other, func(_ workflow.Context, n int) (int, error) { return n, nil }))
		w.Eventually("the earlier release sets the record aside", func() bool { return len(w.Lines("a record of the outbox cannot be read: it is set aside")) > 0 })
		if w.Record(run).Rerun != "" {
			t.Error("an earlier release has made the rerun")
		}
		w.Work(worker.Config{}, append(s.steps(), flowtest.As(d, order))...)
		if got := flowtest.Result(w, next(w, d, run)); got != 20 || s.reserved.Load() != 1 {
			t.Errorf("result %d, reserved %d times", got, s.reserved.Load())
		}
		old.Stop()
		sound(w)
	})
}
