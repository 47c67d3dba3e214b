package questions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestFLOW6_PayloadsAreKeptInOrderAlsoBeforeAnybodyWaits(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		first := w.Work(worker.Config{Parked: 1}, flowtest.Bill)
		run := flowtest.Start(w, flowtest.Bills, 30)
		tok := w.TokenOf(run)
		if want := string(run.ID()) + "."; !strings.HasPrefix(tok, want) || len(tok) != len(want)+22 {
			t.Errorf("token %q, want the run's id and 128 bits", tok)
		}
		var want []int
		for n := range 30 {
			switch n {
			case 10:
				first.Stop() // from here to 19, no worker serves the run
			case 20:
				w.Work(worker.Config{}, flowtest.Bill)
			}
			w.Resume(tok, n)
			want = append(want, n)
		}
		if diff := cmp.Diff(want, flowtest.Result(w, run)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		other := flowtest.Start(w, flowtest.Bills, 0)
		if flowtest.Result(w, other); w.TokenOf(other) == tok {
			t.Error("two hooks have the same token")
		}
	})
}

func TestFLOW6_AnIdempotencyKeyDeliversOnceWhoeverSends(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Bill)
		run := flowtest.Start(w, flowtest.Bills, 2)
		tok := w.TokenOf(run)
		var senders sync.WaitGroup
		for range 20 {
			senders.Go(func() {
				if err := flowtest.Paid.Send(w.Ctx, w.Client, tok, 7, workflow.IdempotencyKey("call-1")); err != nil {
					t.Error(err)
				}
			})
		}
		senders.Wait()
		if err := w.Client.SendToHook(w.Ctx, tok, json.RawMessage(`8`), workflow.IdempotencyKey("call-2")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int{7, 8}, flowtest.Result(w, run)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// A repeated payload is accepted after the hook was closed, because the hook has accepted
		// it before.
		w.Resume(tok, 7, workflow.IdempotencyKey("call-1"))
		if err := flowtest.Paid.Send(w.Ctx, w.Client, tok, 7, workflow.IdempotencyKey("call-3")); !errors.Is(err, workflow.ErrHookDisposed) {
			t.Errorf("a new payload: got %v, want ErrHookDisposed", err)
		}
	})
}

func TestFLOW6_AnUnknownOrClosedTokenIsATypedError(t *testing.T) {
	closing := flowtest.Flow[int, int]("closing")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Bill, flowtest.As(closing, func(ctx workflow.Context, _ int) (int, error) {
			hook, err := flowtest.Paid.Open(ctx)
			if err != nil {
				return 0, err
			}
			if _, err := hook.Receive(ctx); err != nil {
				return 0, err
			}
			hook.Dispose(ctx)
			hook.Dispose(ctx) // the second Dispose has no effect
			if _, err := hook.Receive(ctx); !errors.Is(err, workflow.ErrHookDisposed) {
				t.Errorf("Receive from a closed hook: got %v, want ErrHookDisposed", err)
			}
			if c := hook.Case(); true {
				if won, err := workflow.Select(ctx, c); won != workflow.Case(c) || !errors.Is(err, workflow.ErrHookDisposed) {
					t.Errorf("Select of a closed hook: got %v, %v", won, err)
				}
			}
			flowtest.Token.Set(ctx, hook.Token())
			return flowtest.Numbers.Receive(ctx)
		}))
		run := flowtest.Start(w, closing, 1)
		tok := w.Reach(run, event.HookCreated, 1).Token
		w.Resume(tok, 1, workflow.IdempotencyKey("call"))
		w.TokenOf(run) // the value is set after the hook was closed
		refused := func(what, tok string, want error) {
			t.Helper()
			if err := flowtest.Paid.Send(w.Ctx, w.Client, tok, 1); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", what, err, want)
			}
			if err := w.Client.SendToHook(w.Ctx, tok, json.RawMessage(`1`)); !errors.Is(err, want) {
				t.Errorf("%s, raw: got %v, want %v", what, err, want)
			}
		}
		refused("a closed hook", tok, workflow.ErrHookDisposed)
		w.Resume(tok, 1, workflow.IdempotencyKey("call")) // repeats a payload that was accepted
		w.Send(run, 1)
		flowtest.Result(w, run)
		refused("a run that has ended", tok, workflow.ErrHookDisposed)
		open := flowtest.Start(w, flowtest.Bills, 1)
		tok = w.TokenOf(open)
		if err := workflow.NewHook[int]("other").Send(w.Ctx, w.Client, tok, 1); !errors.Is(err, workflow.ErrHookNotFound) {
			t.Errorf("a token of another hook: got %v, want ErrHookNotFound", err)
		}
		last := byte('A')
		if tok[len(tok)-1] == last {
			last = 'Q'
		}
		for what, tok := range map[string]string{
			"another secret": tok[:len(tok)-1] + string(last), "no secret": string(open.ID()), "a cut token": tok[:len(tok)-1],
			"another run": string(event.NewRunID(time.Now(), 1)) + tok[len(open.ID()):], "nothing": "", "one's own": "order-7",
			"a long one": strings.Repeat("x", 201),
		} {
			refused(what, tok, workflow.ErrHookNotFound)
		}
		if err := w.Client.SendToHook(w.Ctx, tok, json.RawMessage(`{`)); !errors.As(err, new(*workflow.PayloadError)) {
			t.Errorf("no JSON: got %v, want a *PayloadError", err)
		}
	})
}

func TestFLOW6_PayloadsThatWereNotTakenAreListedWhenTheHookIsClosed(t *testing.T) {
	closes := flowtest.Flow[int, int]("closes-early")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(closes, func(ctx workflow.Context, _ int) (int, error) {
		hook, err := flowtest.Paid.Open(ctx)
		if err != nil {
			return 0, err
		}
		if _, err := flowtest.Numbers.Receive(ctx); err != nil {
			return 0, err
		}
		v, err := hook.Receive(ctx)
		hook.Dispose(ctx)
		return v, err
	}))
	run := flowtest.Start(w, closes, 1)
	tok := w.Reach(run, event.HookCreated, 1).Token
	for n := range 3 {
		w.Resume(tok, n)
	}
	received := w.Reach(run, event.HookReceived, 3)
	w.Send(run, 1)
	if got := flowtest.Result(w, run); got != 0 {
		t.Errorf("got %d", got)
	}
	if last := w.Reach(run, event.RunCompleted, 1); len(last.Unread) != 2 || last.Unread[1] != received.Item {
		t.Errorf("unread %q, want the second and the third payload, %s", last.Unread, received.Item)
	}
}

func TestFLOW6_ReceiveTimesOutAndSelectTakesWhatComesFirst(t *testing.T) {
	waits := flowtest.Flow[int, string]("waits-for-hook")
	w := flowtest.NewVirtual(t)
	w.Work(worker.Config{}, flowtest.As(waits, func(ctx workflow.Context, _ int) (string, error) {
		hook, err := flowtest.Paid.Open(ctx)
		if err != nil {
			return "", err
		}
		if _, err := hook.Receive(ctx, workflow.Timeout(time.Hour)); !errors.Is(err, workflow.ErrTimeout) {
			t.Errorf("Receive: got %v, want ErrTimeout", err)
		}
		payload, message, timer := hook.Case(), flowtest.Numbers.Case(), workflow.After(time.Hour)
		var won []string
		for range 3 {
			c, err := workflow.Select(ctx, payload, message, timer)
			if err != nil {
				return "", err
			}
			switch c {
			case payload:
				won = append(won, fmt.Sprint("payload ", payload.Value()))
			case message:
				won = append(won, fmt.Sprint("message ", message.Value()))
			default:
				won = append(won, "timer")
			}
		}
		return strings.Join(won, ", "), nil
	}))
	run := flowtest.Start(w, waits, 1)
	tok := w.Reach(run, event.HookCreated, 1).Token
	w.Reach(run, event.WaitCreated, 1)
	w.Clock.Advance(time.Hour)
	w.Reach(run, event.WaitCreated, 2)
	w.Send(run, 1)
	w.Reach(run, event.MessageReceived, 1)
	w.Resume(tok, 2)
	w.Reach(run, event.HookReceived, 1)
	w.Clock.Advance(2 * time.Hour)
	if got, want := flowtest.Result(w, run), "message 1, payload 2, timer"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFLOW6_WhoWaitsIsToldWhenAnotherBranchClosesTheHook(t *testing.T) {
	closes := flowtest.Flow[int, int]("closes")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(closes, func(ctx workflow.Context, _ int) (int, error) {
		hook, err := flowtest.Paid.Open(ctx)
		if err != nil {
			return 0, err
		}
		waits := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return hook.Receive(ctx) })
		selects := workflow.Go(ctx, func(ctx workflow.Context) (int, error) {
			c := hook.Case()
			_, err := workflow.Select(ctx, c, workflow.After(time.Hour))
			return c.Value(), err
		})
		if _, err := flowtest.Numbers.Receive(ctx); err != nil {
			return 0, err
		}
		hook.Dispose(ctx)
		for _, f := range []*workflow.Future[int]{waits, selects} {
			if _, err := f.Get(ctx); !errors.Is(err, workflow.ErrHookDisposed) {
				t.Errorf("got %v, want ErrHookDisposed", err)
			}
		}
		return 1, nil
	}))
	run := flowtest.Start(w, closes, 1)
	w.Reach(run, event.WaitCreated, 3)
	w.Send(run, 1)
	if got := flowtest.Result(w, run); got != 1 {
		t.Errorf("got %d", got)
	}
}

func TestFLOW6_HooksEndWhenARunContinuesAsNew(t *testing.T) {
	renews := flowtest.Flow[int, int]("renews")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(renews, func(ctx workflow.Context, n int) (int, error) {
			if n == 1 {
				return flowtest.Numbers.Receive(ctx)
			}
			if _, err := flowtest.Paid.Open(ctx); err != nil {
				return 0, err
			}
			if _, err := flowtest.Numbers.Receive(ctx); err != nil {
				return 0, err
			}
			return 0, renews.ContinueAsNew(ctx, 1)
		}))
		run := flowtest.Start(w, renews, 0)
		tok := w.Reach(run, event.HookCreated, 1).Token
		w.Resume(tok, 1, workflow.IdempotencyKey("call"))
		w.Reach(run, event.HookReceived, 1)
		w.Send(run, 1)
		last := w.Reach(run, event.RunContinued, 1)
		if len(last.Unread) != 1 {
			t.Errorf("unread %q, want the payload", last.Unread)
		}
		if err := flowtest.Paid.Send(w.Ctx, w.Client, tok, 2); !errors.Is(err, workflow.ErrHookDisposed) {
			t.Errorf("got %v, want ErrHookDisposed", err)
		}
		w.Resume(tok, 1, workflow.IdempotencyKey("call")) // repeats a payload that was accepted
		w.Send(run, 2)
		if got := flowtest.Result(w, run); got != 2 {
			t.Errorf("got %d", got)
		}
	})
}

func TestFLOW6_AStepCanResumeAHookAndSeesTypedErrors(t *testing.T) {
	w := flowtest.NewMemory(t)
	call := flowtest.AStep[string, int]("call-back", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}})
	calls := flowtest.Flow[string, int]("calls-back")
	w.Work(worker.Config{}, flowtest.Bill, call.As(func(ctx context.Context, tok string) (int, error) {
		return 1, flowtest.Paid.Send(ctx, w.Client, tok, 5)
	}), flowtest.As(calls, func(ctx workflow.Context, tok string) (int, error) { return call.Call(ctx, tok) }))
	run := flowtest.Start(w, flowtest.Bills, 1)
	tok := w.TokenOf(run)
	flowtest.Result(w, flowtest.Start(w, calls, tok))
	if diff := cmp.Diff([]int{5}, flowtest.Result(w, run)); diff != "" {
		t.Error(diff)
	}
	if err := flowtest.Failure(w, flowtest.Start(w, calls, tok)); !errors.Is(err, workflow.ErrHookDisposed) {
		t.Errorf("got %v, want ErrHookDisposed", err)
	}
}
