package questions_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestFLOW16_AnIdempotencyKeyMayBeAnyBytes proves that the idempotency key of a question may
// contain any bytes. Keys can come from outside, for example from a request header.
func TestFLOW16_AnIdempotencyKeyMayBeAnyBytes(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Account, flowtest.Slowly)
		run := flowtest.Start(w, flowtest.Accounts, 0)
		for i, key := range []string{"\xff\xfe", "a\x00b", "\xff\xfd", strings.Repeat("k", 10<<10), "<&>\u2028", "\n"} {
			for range 2 {
				ctx, cancel := context.WithTimeout(w.Ctx, 3*time.Second)
				v, err := flowtest.Add.Ask(ctx, run, 1, workflow.IdempotencyKey(key))
				cancel()
				if err != nil || v != i+1 {
					t.Errorf("key %.20q: got %d, %v, want %d", key, v, err, i+1)
				}
			}
		}
	})
}

func TestFLOW6_ATokenOfTheUsersOwnMayBeAnyBytes(t *testing.T) {
	tokens := []string{"\xff\xfe", "\xff\xfd", "a\x00b", "a\x00c", " ", "\n", "a b", strings.Repeat("t", 200)}
	odd := flowtest.Flow[int, int]("odd")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(odd, func(ctx workflow.Context, n int) (int, error) {
			hook, err := flowtest.Paid.Open(ctx, workflow.Token(tokens[n]))
			if err != nil {
				return 0, err
			}
			return hook.Receive(ctx)
		}))
		var runs []*workflow.Run[int]
		for n := range tokens {
			runs = append(runs, flowtest.Start(w, odd, n))
			w.Opened(runs[n])
		}
		for n, token := range tokens {
			w.Resume(token, n)
			if v := flowtest.Result(w, runs[n]); v != n {
				t.Errorf("token %.20q: got %d, want %d", token, v, n)
			}
		}
	})
}

func TestFLOW6_GarbageIsATypedError(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Hold)
		run := flowtest.Start(w, flowtest.Holds, "there")
		w.Opened(run)
		for _, token := range []string{
			"", "\x00", "wrun_", "wrun_.", "wrun_" + strings.Repeat("0", 26) + ".x", string(run.ID()), string(run.ID()) + ".",
			string(run.ID()) + "." + strings.Repeat("\x00", 22), string(run.ID()) + "." + strings.Repeat("a", 10<<10), strings.Repeat("x", 10<<10),
			"step_" + strings.Repeat("0", 26), "\xff",
		} {
			for what, err := range map[string]error{
				"Resume":     flowtest.Paid.Send(w.Ctx, w.Client, token, 5),
				"SendToHook": w.Client.SendToHook(w.Ctx, token, json.RawMessage(`5`)),
			} {
				if !errors.Is(err, workflow.ErrHookNotFound) {
					t.Errorf("%s with token %.40q: got %v, want ErrHookNotFound", what, token, err)
				}
				if err != nil && len(err.Error()) > 2000 {
					t.Errorf("%s with token %.40q: the error has %d bytes", what, token, len(err.Error()))
				}
			}
		}
		for _, payload := range []string{"", "{", "5 5", "\xff", `"a`, "nul"} {
			var bad *workflow.PayloadError
			if err := w.Client.SendToHook(w.Ctx, "there", json.RawMessage(payload)); !errors.As(err, &bad) {
				t.Errorf("payload %q: got %v, want a *PayloadError", payload, err)
			}
		}
		w.Resume("there", 5)
		if v := flowtest.Result(w, run); v != 5 {
			t.Errorf("got %d", v)
		}
	})
}
