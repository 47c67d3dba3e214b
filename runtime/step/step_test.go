package step_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func inside(a *attempt.Attempt) context.Context { return attempt.With(context.Background(), a) }

func TestSTEP8_FunctionsPanicOutsideOfAStepWithTheFix(t *testing.T) {
	ctx := context.Background()
	for name, f := range map[string]func(){
		"Attempt":        func() { step.Attempt(ctx) },
		"IdempotencyKey": func() { step.IdempotencyKey(ctx) },
		"Heartbeat":      func() { _ = step.Heartbeat(ctx, 1) },
		"LastHeartbeat":  func() { step.LastHeartbeat[int](ctx) },
	} {
		func() {
			defer func() {
				text, _ := recover().(string)
				if !strings.Contains(text, name) || !strings.Contains(text, "step.Current") {
					t.Errorf("%s: panicked with %q", name, text)
				}
			}()
			f()
		}()
	}
	if c, ok := step.Current(ctx); ok {
		t.Errorf("Current outside of a step: %v", c)
	}
}

func TestSTEP8_CurrentDescribesTheAttempt(t *testing.T) {
	a := &attempt.Attempt{Run: "wrun_1", WorkflowID: "o", Step: "p.s", Key: "w/p.s#1", Number: 3, Tags: map[string]string{"a": "b"}}
	got, ok := step.Current(inside(a))
	want := step.Call{RunID: "wrun_1", WorkflowID: "o", Step: "p.s", Key: "w/p.s#1", Attempt: 3, Tags: map[string]string{"a": "b"}}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("%v (-want +got):\n%s", ok, diff)
	}
	got.Tags["a"] = "changed"
	if a.Tags["a"] != "b" {
		t.Error("the caller can change the tags of the run")
	}
}

func TestSTEP8_IdempotencyKeysSeparateRunFromKey(t *testing.T) {
	key := func(run workflow.RunID, k string, n int) string {
		return step.IdempotencyKey(inside(&attempt.Attempt{Run: run, Key: k, Number: n}))
	}
	if key("a", "b", 1) != key("a", "b", 7) {
		t.Error("the key changes from attempt to attempt")
	}
	different := map[string]bool{key("a", "b", 1): true, key("a", "c", 1): true, key("b", "b", 1): true, key("ab", "", 1): true, key("", "ab", 1): true}
	if len(different) != 5 {
		t.Errorf("5 steps have %d keys", len(different))
	}
}

func TestSTEP8_HeartbeatStoresDetailsOrSaysWhyNot(t *testing.T) {
	var stored []string
	a := &attempt.Attempt{Step: "p.s", Heart: attempt.HeartFunc(func(_ context.Context, b []byte) error { stored = append(stored, string(b)); return nil })}
	if err := step.Heartbeat(inside(a), map[string]int{"done": 3}); err != nil {
		t.Error(err)
	}
	var payload *workflow.PayloadError
	if err := step.Heartbeat(inside(a), func() {}); !errors.As(err, &payload) || !strings.Contains(err.Error(), "p.s") {
		t.Errorf("what cannot be encoded: %v", err)
	}
	cause := errors.New("the run was canceled")
	ctx, cancel := context.WithCancelCause(inside(a))
	cancel(cause)
	if err := step.Heartbeat(ctx, 4); !errors.Is(err, cause) {
		t.Errorf("after the context ended: %v, want its cause", err)
	}
	if diff := cmp.Diff([]string{`{"done":3}`}, stored); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	broken := errors.New("broken")
	a.Heart = attempt.HeartFunc(func(context.Context, []byte) error { return broken })
	if err := step.Heartbeat(inside(a), 1); !errors.Is(err, broken) || !strings.Contains(err.Error(), "p.s") {
		t.Errorf("a store that fails: %v", err)
	}
}

func TestSTEP8_LastHeartbeatReadsWhatTheAttemptBeforeStored(t *testing.T) {
	if v, ok := step.LastHeartbeat[int](inside(&attempt.Attempt{})); ok || v != 0 {
		t.Errorf("nothing stored: %v, %v", v, ok)
	}
	ctx := inside(&attempt.Attempt{Last: []byte(`{"Done":3}`)})
	if v, ok := step.LastHeartbeat[struct{ Done int }](ctx); !ok || v.Done != 3 {
		t.Errorf("got %v, %v", v, ok)
	}
	if v, ok := step.LastHeartbeat[[]int](ctx); ok || v != nil {
		t.Errorf("as another type: %v, %v", v, ok)
	}
}

func TestSTEP5_MarkedErrorsKeepTheirCauseAndNilStaysNil(t *testing.T) {
	cause := errors.New("cause")
	for name, err := range map[string]error{"Fatal": step.Fatal(cause), "RetryAfter": step.RetryAfter(cause, time.Second), "HoldBack": step.HoldBack(cause, time.Second)} {
		if !errors.Is(err, cause) || err.Error() != "cause" {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := errors.Join(step.Fatal(nil), step.RetryAfter(nil, time.Second), step.HoldBack(nil, time.Second)); err != nil {
		t.Errorf("marked nil: %v", err)
	}
	var after *attempt.RetryAfterError
	if err := step.RetryAfter(cause, -time.Second); !errors.As(err, &after) || after.Delay != 0 {
		t.Errorf("a delay in the past: %v", after)
	}
}
