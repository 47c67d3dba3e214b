package shim_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
)

type args struct {
	N    int    `json:"n"`
	Name string `json:"name"`
}

// bomb is a value that panics when it is encoded or decoded.
type bomb struct{}

func (bomb) MarshalJSON() ([]byte, error) { panic("written") }
func (*bomb) UnmarshalJSON([]byte) error  { panic("read") }

func inStep() context.Context {
	return attempt.With(context.Background(), &attempt.Attempt{Step: "p.s"})
}

func TestSTEP1_HandlersReadArgumentsByNameAndWriteTheResult(t *testing.T) {
	h := shim.Handle(func(_ context.Context, a args) (string, error) { return strings.Repeat(a.Name, a.N), nil })
	for in, want := range map[string]string{
		`{"n":2,"name":"x"}`: `"xx"`, `{"name":"x","n":1,"more":true}`: `"x"`, `{}`: `""`, ``: `""`,
	} {
		if got, err := h(inStep(), []byte(in)); string(got) != want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", in, got, err, want)
		}
	}
	e := shim.HandleErr(func(_ context.Context, a args) error {
		if a.N == 0 {
			return errors.New("zero")
		}
		return nil
	})
	if got, err := e(inStep(), []byte(`{"n":1}`)); got != nil || err != nil {
		t.Errorf("without a result: got %s, %v", got, err)
	}
	if got, err := e(inStep(), nil); got != nil || err == nil {
		t.Errorf("without a result, failing: got %s, %v", got, err)
	}
}

func TestSTEP11_HandlersNameTheStepWhosePayloadIsWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		h    shim.Handler
		in   string
		what string
	}{
		"arguments of another type": {shim.Handle(func(context.Context, args) (int, error) { return 1, nil }), `{"n":"x"}`, "input of step p.s"},
		"arguments that panic":      {shim.HandleErr(func(context.Context, bomb) error { return nil }), `{}`, "input of step p.s"},
		"result that panics":        {shim.Handle(func(context.Context, args) (bomb, error) { return bomb{}, nil }), `{}`, "result of step p.s"},
		"result without JSON":       {shim.Handle(func(context.Context, args) (func(), error) { return func() {}, nil }), `{}`, "result of step p.s"},
	} {
		var payload *workflow.PayloadError
		if out, err := tt.h(inStep(), []byte(tt.in)); !errors.As(err, &payload) || payload.What != tt.what || out != nil {
			t.Errorf("%s: got %s, %v, want a *PayloadError about the %s", name, out, err, tt.what)
		}
	}
}

func TestSTEP11_AFailedStepWritesNoResult(t *testing.T) {
	failed := errors.New("failed")
	h := shim.Handle(func(context.Context, args) (bomb, error) { return bomb{}, failed })
	if out, err := h(inStep(), nil); out != nil || !errors.Is(err, failed) {
		t.Errorf("got %s, %v", out, err)
	}
}

type typed struct{ code int }

func (e *typed) Error() string { return fmt.Sprint(e.code) }

func TestSTEP5_AsFatalLooksThroughWrappedErrors(t *testing.T) {
	if !shim.AsFatal[*typed](fmt.Errorf("a: %w", &typed{1})) || shim.AsFatal[*typed](errors.New("x")) {
		t.Error("AsFatal does not tell the type")
	}
}

func TestSTEP3_KeysAreTheTextOfTheirValue(t *testing.T) {
	for v, want := range map[any]string{"a-1": "a-1", 7: "7", true: "true", int64(-3): "-3"} {
		if got := shim.Key(v); got != want {
			t.Errorf("Key(%v): got %q, want %q", v, got, want)
		}
	}
}
