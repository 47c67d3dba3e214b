package worker_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestRUN9_TheReasonOfACancelIsInTheErrorAndAskingAgainIsFine(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, open(t), workflow.ClientConfig{})
			w.work(worker.Config{}, parks)
			run := start(w, parker, "")
			w.reach(run, event.WaitCreated, 1)
			if err := run.Cancel(w.ctx, strings.Repeat("x", workflow.MaxReason+1)); !isInvalid(err, "reason") {
				t.Errorf("a reason that is too long: %v", err)
			}
			if err := run.Cancel(w.ctx, "the customer has left"); err != nil {
				t.Fatal(err)
			}
			if err := failure(w, run); err.Status != workflow.StatusCanceled || !strings.Contains(err.Reason, "the customer has left") || !errors.Is(err, workflow.ErrCanceled) {
				t.Errorf("got %v, want a cancelled run that says why", err)
			}
			if err := run.Cancel(w.ctx, "again"); err != nil { // the answer to the first one may have been lost
				t.Errorf("asking again: %v", err)
			}
		})
	}
}

func isInvalid(err error, what string) bool {
	var invalid *workflow.InvalidError
	return errors.As(err, &invalid) && invalid.What == what && len(invalid.Value) <= 100
}

func TestRUN2_NamesThatAreTooLongAreRefusedByName(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, open(t), workflow.ClientConfig{})
			long := strings.Repeat("x", store.MaxName+1)
			for what, opt := range map[string]workflow.StartOption{
				"workflow id": workflow.WithID(long), "queue": workflow.WithQueue(long),
				"tag": workflow.WithTags(map[string]string{long: ""}), "value of a tag": workflow.WithTags(map[string]string{"a": long}),
			} {
				if _, err := parker.Start(w.ctx, w.client, "", opt); !isInvalid(err, what) {
					t.Errorf("%s: got %v", what, err)
				}
			}
			run := start(w, parker, "", workflow.WithID(long[1:]))
			for range 2 { // a long key is as good as a short one
				if err := wake.Send(w.ctx, run, "x", workflow.IdempotencyKey(strings.Repeat("k", 1<<20))); err != nil {
					t.Error(err)
				}
			}
			if n := w.inbox(run); n != 1 {
				t.Errorf("%d messages, want 1", n)
			}
		})
	}
}

func TestMSG2_TheTimeoutOfAReceiveIsNotThatOfTheContext(t *testing.T) {
	waits := flow[bool, string]("waits")
	w := newMemory(t)
	w.work(worker.Config{}, as(waits, func(ctx workflow.Context, own bool) (string, error) {
		var err error
		if own {
			_, err = wake.Receive(ctx, workflow.Timeout(time.Millisecond))
		} else {
			ctx, cancel := workflow.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			_, err = wake.Receive(ctx)
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
		if got := result(w, start(w, waits, own)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRUN11_TheRetentionOfAParentHoldsForItsChildren(t *testing.T) {
	leaf, tree := flow[int, int]("leaf"), flow[int, []workflow.RunID]("tree")
	w := newMemory(t)
	w.work(worker.Config{}, as(leaf, func(_ workflow.Context, n int) (int, error) { return n, nil }),
		as(tree, func(ctx workflow.Context, n int) (ids []workflow.RunID, err error) {
			for _, opts := range [][]workflow.ChildOption{nil, {workflow.WithRetention(time.Hour)}} {
				c := leaf.StartChild(ctx, n, opts...)
				if _, err := c.Get(ctx); err != nil {
					return nil, err
				}
				ids = append(ids, c.ID())
			}
			return ids, nil
		}))
	ids := result(w, start(w, tree, 1, workflow.WithRetention(10*time.Minute)))
	for i, want := range []time.Duration{10 * time.Minute, time.Hour} {
		if got := w.log(w.client.Run(ids[i]))[0].Spec.Retention; got != want {
			t.Errorf("child %d is kept for %v, want %v", i, got, want)
		}
	}
}

// fenced is a store whose runs are always somebody else's by the time of a heartbeat.
type fenced struct {
	*memstore.Store
}

func (fenced) SetNote(context.Context, event.RunID, store.Fence, string, []byte, bool) error {
	return store.ErrFenced
}

func TestSTEP8_TheHeartbeatOfAFencedAttemptSaysThatTheClaimIsLost(t *testing.T) {
	w := newWorld(t, fenced{memstore.New()}, workflow.ClientConfig{})
	got := make(chan error, 1)
	w.work(worker.Config{}, runs, work1.as(func(ctx context.Context, n int) (int, error) {
		select {
		case got <- step.Heartbeat(ctx, n):
		default:
		}
		return n, context.Cause(ctx)
	}), as(flow[int, int]("beats"), func(ctx workflow.Context, n int) (int, error) { return work1.Call(ctx, n) }))
	start(w, flow[int, int]("beats"), 1)
	select {
	case err := <-got:
		if !errors.Is(err, workflow.ErrClaimLost) {
			t.Errorf("got %v", err)
		}
	case <-w.ctx.Done():
		t.Fatal("the step was not called")
	}
}
