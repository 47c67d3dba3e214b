package worker_test

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
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	paid  = workflow.NewHook[int]("paid")
	token = workflow.NewValue[string]("token")
	bills = flow[int, []int]("bills") // takes so many payloads
	bill  = as(bills, func(ctx workflow.Context, n int) ([]int, error) {
		hook, err := paid.Open(ctx)
		if err != nil {
			return nil, err
		}
		defer hook.Dispose(ctx)
		token.Set(ctx, hook.Token())
		var all []int
		for range n {
			v, err := hook.Receive(ctx)
			if err != nil {
				return all, err
			}
			all = append(all, v)
		}
		return all, nil
	})
)

// tokenOf waits for the token that a run has published.
func (w *world) tokenOf(run workflow.Target) string {
	w.t.Helper()
	t, err := token.Wait(w.ctx, run)
	if err != nil {
		w.t.Fatal(err)
	}
	return t
}

// resume sends a payload to a hook.
func (w *world) resume(token string, v int, opts ...workflow.SendOption) {
	w.t.Helper()
	if err := paid.Send(w.ctx, w.client, token, v, opts...); err != nil {
		w.t.Fatal(err)
	}
}

func TestFLOW6_PayloadsAreKeptInOrderAlsoBeforeAnybodyWaits(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		first := w.work(worker.Config{Parked: 1}, bill)
		run := start(w, bills, 30)
		tok := w.tokenOf(run)
		if want := string(run.ID()) + "."; !strings.HasPrefix(tok, want) || len(tok) != len(want)+22 {
			t.Errorf("token %q, want the run's id and 128 bits", tok)
		}
		var want []int
		for n := range 30 {
			switch n {
			case 10:
				first.stop() // nobody works on the run
			case 20:
				w.work(worker.Config{}, bill)
			}
			w.resume(tok, n)
			want = append(want, n)
		}
		if diff := cmp.Diff(want, result(w, run)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		other := start(w, bills, 0)
		if result(w, other); w.tokenOf(other) == tok {
			t.Error("two hooks have the same token")
		}
	})
}

func TestFLOW6_AnIdempotencyKeyDeliversOnceWhoeverSends(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, bill)
		run := start(w, bills, 2)
		tok := w.tokenOf(run)
		var senders sync.WaitGroup
		for range 20 {
			senders.Go(func() {
				if err := paid.Send(w.ctx, w.client, tok, 7, workflow.IdempotencyKey("call-1")); err != nil {
					t.Error(err)
				}
			})
		}
		senders.Wait()
		if err := w.client.SendToHook(w.ctx, tok, json.RawMessage(`8`), workflow.IdempotencyKey("call-2")); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int{7, 8}, result(w, run)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// What was accepted stays accepted, also when the hook is closed.
		w.resume(tok, 7, workflow.IdempotencyKey("call-1"))
		if err := paid.Send(w.ctx, w.client, tok, 7, workflow.IdempotencyKey("call-3")); !errors.Is(err, workflow.ErrHookDisposed) {
			t.Errorf("a new payload: got %v, want ErrHookDisposed", err)
		}
	})
}

func TestFLOW6_AnUnknownOrClosedTokenIsATypedError(t *testing.T) {
	closing := flow[int, int]("closing")
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, bill, as(closing, func(ctx workflow.Context, _ int) (int, error) {
			hook, err := paid.Open(ctx)
			if err != nil {
				return 0, err
			}
			if _, err := hook.Receive(ctx); err != nil {
				return 0, err
			}
			hook.Dispose(ctx)
			hook.Dispose(ctx) // does nothing
			if _, err := hook.Receive(ctx); !errors.Is(err, workflow.ErrHookDisposed) {
				t.Errorf("Receive from a closed hook: got %v, want ErrHookDisposed", err)
			}
			if c := hook.Case(); true {
				if won, err := workflow.Select(ctx, c); won != workflow.Case(c) || !errors.Is(err, workflow.ErrHookDisposed) {
					t.Errorf("Select of a closed hook: got %v, %v", won, err)
				}
			}
			token.Set(ctx, hook.Token())
			return numbers.Receive(ctx)
		}))
		run := start(w, closing, 1)
		tok := w.reach(run, event.HookCreated, 1).Token
		w.resume(tok, 1, workflow.IdempotencyKey("call"))
		w.tokenOf(run) // it is closed
		refused := func(what, tok string, want error) {
			t.Helper()
			if err := paid.Send(w.ctx, w.client, tok, 1); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", what, err, want)
			}
			if err := w.client.SendToHook(w.ctx, tok, json.RawMessage(`1`)); !errors.Is(err, want) {
				t.Errorf("%s, raw: got %v, want %v", what, err, want)
			}
		}
		refused("a closed hook", tok, workflow.ErrHookDisposed)
		w.resume(tok, 1, workflow.IdempotencyKey("call")) // was accepted
		w.send(run, 1)
		result(w, run)
		refused("a run that has ended", tok, workflow.ErrHookDisposed)
		open := start(w, bills, 1)
		tok = w.tokenOf(open)
		if err := workflow.NewHook[int]("other").Send(w.ctx, w.client, tok, 1); !errors.Is(err, workflow.ErrHookNotFound) {
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
		if err := w.client.SendToHook(w.ctx, tok, json.RawMessage(`{`)); !errors.As(err, new(*workflow.PayloadError)) {
			t.Errorf("no JSON: got %v, want a *PayloadError", err)
		}
	})
}

func TestFLOW6_PayloadsThatWereNotTakenAreListedWhenTheHookIsClosed(t *testing.T) {
	closes := flow[int, int]("closes-early")
	w := newMemory(t)
	w.work(worker.Config{}, as(closes, func(ctx workflow.Context, _ int) (int, error) {
		hook, err := paid.Open(ctx)
		if err != nil {
			return 0, err
		}
		if _, err := numbers.Receive(ctx); err != nil {
			return 0, err
		}
		v, err := hook.Receive(ctx)
		hook.Dispose(ctx)
		return v, err
	}))
	run := start(w, closes, 1)
	tok := w.reach(run, event.HookCreated, 1).Token
	for n := range 3 {
		w.resume(tok, n)
	}
	received := w.reach(run, event.HookReceived, 3)
	w.send(run, 1)
	if got := result(w, run); got != 0 {
		t.Errorf("got %d", got)
	}
	if last := w.reach(run, event.RunCompleted, 1); len(last.Unread) != 2 || last.Unread[1] != received.Item {
		t.Errorf("unread %q, want the second and the third payload, %s", last.Unread, received.Item)
	}
}

func TestFLOW6_ReceiveTimesOutAndSelectTakesWhatComesFirst(t *testing.T) {
	waits := flow[int, string]("waits-for-hook")
	w := newVirtual(t)
	w.work(worker.Config{}, as(waits, func(ctx workflow.Context, _ int) (string, error) {
		hook, err := paid.Open(ctx)
		if err != nil {
			return "", err
		}
		if _, err := hook.Receive(ctx, workflow.Timeout(time.Hour)); !errors.Is(err, workflow.ErrTimeout) {
			t.Errorf("Receive: got %v, want ErrTimeout", err)
		}
		payload, message, timer := hook.Case(), numbers.Case(), workflow.After(time.Hour)
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
	run := start(w, waits, 1)
	tok := w.reach(run, event.HookCreated, 1).Token
	w.reach(run, event.WaitCreated, 1)
	w.clock.Advance(time.Hour)
	w.reach(run, event.WaitCreated, 2)
	w.send(run, 1)
	w.reach(run, event.MessageReceived, 1)
	w.resume(tok, 2)
	w.reach(run, event.HookReceived, 1)
	w.clock.Advance(2 * time.Hour)
	if got, want := result(w, run), "message 1, payload 2, timer"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestFLOW6_WhoWaitsIsToldWhenAnotherBranchClosesTheHook(t *testing.T) {
	closes := flow[int, int]("closes")
	w := newMemory(t)
	w.work(worker.Config{}, as(closes, func(ctx workflow.Context, _ int) (int, error) {
		hook, err := paid.Open(ctx)
		if err != nil {
			return 0, err
		}
		waits := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return hook.Receive(ctx) })
		selects := workflow.Go(ctx, func(ctx workflow.Context) (int, error) {
			c := hook.Case()
			_, err := workflow.Select(ctx, c, workflow.After(time.Hour))
			return c.Value(), err
		})
		if _, err := numbers.Receive(ctx); err != nil {
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
	run := start(w, closes, 1)
	w.reach(run, event.WaitCreated, 3)
	w.send(run, 1)
	if got := result(w, run); got != 1 {
		t.Errorf("got %d", got)
	}
}

func TestFLOW6_HooksEndWhenARunContinuesAsNew(t *testing.T) {
	renews := flow[int, int]("renews")
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, as(renews, func(ctx workflow.Context, n int) (int, error) {
			if n == 1 {
				return numbers.Receive(ctx)
			}
			if _, err := paid.Open(ctx); err != nil {
				return 0, err
			}
			if _, err := numbers.Receive(ctx); err != nil {
				return 0, err
			}
			return 0, renews.ContinueAsNew(ctx, 1)
		}))
		run := start(w, renews, 0)
		tok := w.reach(run, event.HookCreated, 1).Token
		w.resume(tok, 1, workflow.IdempotencyKey("call"))
		w.reach(run, event.HookReceived, 1)
		w.send(run, 1)
		last := w.reach(run, event.RunContinued, 1)
		if len(last.Unread) != 1 {
			t.Errorf("unread %q, want the payload", last.Unread)
		}
		if err := paid.Send(w.ctx, w.client, tok, 2); !errors.Is(err, workflow.ErrHookDisposed) {
			t.Errorf("got %v, want ErrHookDisposed", err)
		}
		w.resume(tok, 1, workflow.IdempotencyKey("call")) // was accepted
		w.send(run, 2)
		if got := result(w, run); got != 2 {
			t.Errorf("got %d", got)
		}
	})
}

func TestFLOW6_AStepCanResumeAHookAndSeesTypedErrors(t *testing.T) {
	w := newMemory(t)
	call := aStep[string, int]("call-back", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}})
	calls := flow[string, int]("calls-back")
	w.work(worker.Config{}, bill, call.as(func(ctx context.Context, tok string) (int, error) {
		return 1, paid.Send(ctx, w.client, tok, 5)
	}), as(calls, func(ctx workflow.Context, tok string) (int, error) { return call.Call(ctx, tok) }))
	run := start(w, bills, 1)
	tok := w.tokenOf(run)
	result(w, start(w, calls, tok))
	if diff := cmp.Diff([]int{5}, result(w, run)); diff != "" {
		t.Error(diff)
	}
	if err := failure(w, start(w, calls, tok)); !errors.Is(err, workflow.ErrHookDisposed) {
		t.Errorf("got %v, want ErrHookDisposed", err)
	}
}
