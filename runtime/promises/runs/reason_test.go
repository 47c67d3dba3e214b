package runs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestRUN9_TheReasonOfACancelIsInTheErrorAndAskingAgainIsFine(t *testing.T) {
	for name, open := range flowtest.Stores {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewWorld(t, open(t), workflow.ClientConfig{})
			w.Work(worker.Config{}, flowtest.Parks)
			run := flowtest.Start(w, flowtest.Parker, "")
			w.Reach(run, event.WaitCreated, 1)
			if err := run.Cancel(w.Ctx, strings.Repeat("x", store.MaxReason+1)); !flowtest.IsInvalid(err, "reason") {
				t.Errorf("a reason that is too long: %v", err)
			}
			if err := run.Cancel(w.Ctx, "the customer has left"); err != nil {
				t.Fatal(err)
			}
			if err := flowtest.Failure(w, run); err.Status != workflow.StatusCanceled || !strings.Contains(err.Reason, "the customer has left") || !errors.Is(err, workflow.ErrCanceled) {
				t.Errorf("got %v, want a cancelled run that says why", err)
			}
			if err := run.Cancel(w.Ctx, "again"); err != nil { // the answer to the first cancel may have been lost
				t.Errorf("asking again: %v", err)
			}
		})
	}
}

func TestRUN2_NamesThatAreTooLongAreRefusedByName(t *testing.T) {
	for name, open := range flowtest.Stores {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewWorld(t, open(t), workflow.ClientConfig{})
			long := strings.Repeat("x", store.MaxName+1)
			for what, opt := range map[string]workflow.StartOption{
				"workflow id": workflow.WithID(long), "queue": workflow.WithQueue(long),
				"tag": workflow.WithTags(map[string]string{long: ""}), "value of a tag": workflow.WithTags(map[string]string{"a": long}),
			} {
				if _, err := flowtest.Parker.Start(w.Ctx, w.Client, "", opt); !flowtest.IsInvalid(err, what) {
					t.Errorf("%s: got %v", what, err)
				}
			}
			run := flowtest.Start(w, flowtest.Parker, "", workflow.WithID(long[1:]))
			for range 2 { // the second message repeats the long key and has no effect
				if err := flowtest.Wake.Send(w.Ctx, run, "x", workflow.IdempotencyKey(strings.Repeat("k", 1<<20))); err != nil {
					t.Error(err)
				}
			}
			if n := w.Inbox(run); n != 1 {
				t.Errorf("%d messages, want 1", n)
			}
		})
	}
}

func TestMSG2_TheTimeoutOfAReceiveIsNotThatOfTheContext(t *testing.T) {
	waits := flowtest.Flow[bool, string]("waits")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(waits, func(ctx workflow.Context, own bool) (string, error) {
		var err error
		if own {
			_, err = flowtest.Wake.Receive(ctx, workflow.Timeout(time.Millisecond))
		} else {
			ctx, cancel := workflow.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			_, err = flowtest.Wake.Receive(ctx)
		}
		if !errors.Is(err, workflow.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) {
			return "", err
		}
		if errors.Is(err, workflow.ErrReceiveTimeout) {
			return "its own", nil
		}
		return "of the context", nil
	}))
	for own, want := range map[bool]string{true: "its own", false: "of the context"} {
		if got := flowtest.Result(w, flowtest.Start(w, waits, own)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRUN11_TheRetentionOfAParentHoldsForItsChildren(t *testing.T) {
	leaf, tree := flowtest.Flow[int, int]("leaf"), flowtest.Flow[int, []workflow.RunID]("tree")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(leaf, func(_ workflow.Context, n int) (int, error) { return n, nil }),
		flowtest.As(tree, func(ctx workflow.Context, n int) (ids []workflow.RunID, err error) {
			for _, opts := range [][]workflow.ChildOption{nil, {workflow.WithRetention(time.Hour)}} {
				c := leaf.StartChild(ctx, n, opts...)
				if _, err := c.Get(ctx); err != nil {
					return nil, err
				}
				ids = append(ids, c.ID())
			}
			return ids, nil
		}))
	ids := flowtest.Result(w, flowtest.Start(w, tree, 1, workflow.WithRetention(10*time.Minute)))
	for i, want := range []time.Duration{10 * time.Minute, time.Hour} {
		if got := w.Log(w.Client.Run(ids[i]))[0].Spec.Retention; got != want {
			t.Errorf("child %d is kept for %v, want %v", i, got, want)
		}
	}
}

// fenced is a store that refuses every heartbeat of a step, as if another worker owned the run.
type fenced struct {
	*memstore.Store
}

func (fenced) SetStepData(context.Context, event.RunID, store.Fence, string, []byte, bool) error {
	return store.ErrFenced
}

func TestSTEP8_TheHeartbeatOfAFencedAttemptSaysThatTheClaimIsLost(t *testing.T) {
	w := flowtest.NewWorld(t, fenced{memstore.New()}, workflow.ClientConfig{})
	got := make(chan error, 1)
	w.Work(worker.Config{}, flowtest.Runs, flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
		select {
		case got <- step.Heartbeat(ctx, n):
		default:
		}
		return n, context.Cause(ctx)
	}), flowtest.As(flowtest.Flow[int, int]("beats"), func(ctx workflow.Context, n int) (int, error) { return flowtest.Work1.Call(ctx, n) }))
	flowtest.Start(w, flowtest.Flow[int, int]("beats"), 1)
	select {
	case err := <-got:
		if !errors.Is(err, workflow.ErrClaimLost) {
			t.Errorf("got %v", err)
		}
	case <-w.Ctx.Done():
		t.Fatal("the step was not called")
	}
}
