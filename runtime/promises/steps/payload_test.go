package steps_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	text  = flowtest.AStep[string, string]("text", shim.Policy{})
	texts = flowtest.Flow[string, string]("texts")
)

// big returns a text of n bytes. Its stored form is somewhat larger.
func big(n int) string { return strings.Repeat("x", n) }

const (
	warned  = 300 << 10
	refused = 2<<20 + 1
)

func payloadError(t *testing.T, err error, what string) {
	t.Helper()
	var payload *workflow.PayloadError
	if !errors.As(err, &payload) || payload.Size <= payload.Limit || payload.Limit != 2<<20 || !flowtest.ContainsAll(payload.What, what) {
		t.Errorf("%s: got %.300v, want a *PayloadError with the size and the limit", what, err)
	}
}

func TestSTEP11_PayloadsAboveTheLimitAreRefusedByName(t *testing.T) {
	makes := flowtest.Flow[string, string]("makes")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(texts, func(_ workflow.Context, in string) (string, error) { return in, nil }),
		text.As(func(_ context.Context, in string) (string, error) { return big(refused), nil }),
		flowtest.As(makes, func(ctx workflow.Context, what string) (string, error) {
			switch what {
			case "input of step test.text":
				return text.Call(ctx, big(refused))
			case "result of step test.text":
				return text.Call(ctx, "small")
			case "recorded value":
				return workflow.Record(ctx, func() (string, error) { return big(refused), nil })
			}
			return big(refused), nil
		}))
	_, err := texts.Start(w.Ctx, w.Client, big(refused))
	payloadError(t, err, "input of workflow test.texts")
	for _, what := range []string{"input of step test.text", "result of step test.text", "recorded value", "result of workflow test.makes"} {
		run := flowtest.Start(w, makes, what)
		err := flowtest.Failure(w, run)
		payloadError(t, err, what)
		if err.Code != event.CodePayload {
			t.Errorf("%s: got code %s", what, err.Code)
		}
		if n := len(flowtest.Filter(w.Log(run), event.StepStarted)); n > 1 {
			t.Errorf("%s: %d attempts were made", what, n)
		}
	}
	payloadError(t, flowtest.Wake.Send(w.Ctx, flowtest.Start(w, flowtest.Parker, "x"), big(refused)), "topic wake")
}

func TestSTEP11_LargePayloadsAreLoggedByNameOnceAndKeptWhole(t *testing.T) {
	w := flowtest.NewMemory(t)
	code := []flowtest.Binding{text.As(func(_ context.Context, in string) (string, error) { return in + in, nil }),
		flowtest.As(texts, func(ctx workflow.Context, in string) (string, error) {
			out, err := text.Call(ctx, in)
			if err != nil {
				return "", err
			}
			rec, err := workflow.Record(ctx, func() (string, error) { return big(warned), nil })
			if err != nil {
				return "", err
			}
			msg, err := flowtest.Wake.Receive(ctx)
			return out + rec + msg, err
		})}
	first := w.Work(worker.Config{}, code...)
	run := flowtest.Start(w, texts, big(warned))
	w.Reach(run, event.WaitCreated, 1)
	first.Stop()
	w.Work(worker.Config{}, code...) // the replay logs no second warning
	if err := flowtest.Wake.Send(w.Ctx, run, big(warned)); err != nil {
		t.Fatal(err)
	}
	if got := flowtest.Result(w, run); got != big(4*warned) {
		t.Errorf("got %d bytes, want %d", len(got), 4*warned)
	}
	w.StopWorkers()
	for _, what := range []string{
		"input of workflow test.texts", "input of step test.text", "result of step test.text", "recorded value", "topic wake", "result of workflow test.texts",
	} {
		if n := w.Logs.Count(what); n != 1 {
			t.Errorf("%s was logged %d times, want once", what, n)
		}
	}
}

func TestSTEP11_TheLimitsAreThoseOfTheClient(t *testing.T) {
	w := flowtest.NewWorld(t, flowtest.Stores["memory"](t), workflow.ClientConfig{MaxPayload: 100, WarnPayload: 10})
	if _, err := flowtest.Echo.Start(w.Ctx, w.Client, big(200)); err == nil || !flowtest.ContainsAll(err.Error(), "the limit is 100") {
		t.Errorf("got %v", err)
	}
	if _, err := flowtest.Echo.Start(w.Ctx, w.Client, big(92)); err == nil { // the stored form {"in":"…"} is 9 bytes longer, and exceeds the limit of 100
		t.Error("101 bytes were accepted")
	}
	_ = flowtest.Start(w, flowtest.Echo, big(91))
	if n := w.Logs.Count("input of workflow test.echo"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// explosive is a type that panics when it is encoded or decoded.
type explosive struct{ N int }

func (explosive) MarshalJSON() ([]byte, error) { panic("boom") }

func (*explosive) UnmarshalJSON([]byte) error { panic("bang") }

func TestSTEP11_ValuesThatCannotBeEncodedAreErrorsThatNameThem(t *testing.T) {
	anything := flowtest.AStep[any, any]("anything", shim.Policy{})
	anyFlow := flowtest.Flow[int, any]("any")
	bad := map[string]any{"channel": make(chan int), "NaN": math.NaN(), "panic": explosive{}, "function": map[string]any{"f": func() {}}}
	for name, v := range bad {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewMemory(t)
			w.Work(worker.Config{}, anything.As(func(context.Context, any) (any, error) { return v, nil }),
				flowtest.As(anyFlow, func(ctx workflow.Context, what int) (any, error) {
					switch what {
					case 0:
						return anything.Call(ctx, v)
					case 1:
						return anything.Call(ctx, 1)
					case 2:
						return workflow.Record(ctx, func() (any, error) { return v, nil })
					}
					return v, nil
				}))
			for what, want := range []string{"input of step test.anything", "result of step test.anything", "recorded value", "result of workflow test.any"} {
				err := flowtest.Failure(w, flowtest.Start(w, anyFlow, what))
				var payload *workflow.PayloadError
				if !errors.As(err, &payload) || payload.What != want || err.Code != event.CodePayload {
					t.Errorf("%s: got code %s, %v", want, err.Code, err)
				}
			}
			anyTopic := workflow.NewTopic[any]("any")
			var payload *workflow.PayloadError
			if err := anyTopic.Send(w.Ctx, flowtest.Start(w, flowtest.Parker, "x"), v); !errors.As(err, &payload) {
				t.Errorf("message: got %v", err)
			}
			if _, err := flowtest.Flow[any, int]("in").Start(w.Ctx, w.Client, v); !errors.As(err, &payload) {
				t.Errorf("input of a workflow: got %v", err)
			}
		})
	}
}

// TestSTEP11_WhatCannotBeDecodedIsAnErrorThatNamesIt proves that a value that cannot be decoded is
// an error that names the value. The types of a step, a workflow and a result have changed since
// the values were stored.
func TestSTEP11_WhatCannotBeDecodedIsAnErrorThatNamesIt(t *testing.T) {
	numeric := flowtest.AStep[int, int]("retyped", shim.Policy{})
	worded := flowtest.AStep[string, string]("retyped", shim.Policy{})
	before, after := flowtest.Flow[int, int]("changed"), flowtest.Flow[int, string]("changed")
	other := flowtest.Flow[string, int]("changed")
	w := flowtest.NewMemory(t)
	var payload *workflow.PayloadError
	first := w.Work(worker.Config{}, numeric.As(func(_ context.Context, n int) (int, error) { return n, nil }),
		flowtest.As(before, func(ctx workflow.Context, n int) (int, error) {
			if v, err := shim.Call[explosive](ctx, numeric.Step, flowtest.StepArgs[int]{In: n}); !errors.As(err, &payload) || payload.What != "result of step test.retyped" {
				t.Errorf("a result that panics when it is read: %v, %v", v, err)
			}
			v, err := shim.Call[string](ctx, numeric.Step, flowtest.StepArgs[int]{In: n})
			if !errors.As(err, &payload) || payload.What != "result of step test.retyped" {
				t.Errorf("result of a step: %q, %v", v, err)
			}
			return n, nil
		}))
	run := flowtest.Start(w, before, 3)
	_ = flowtest.Result(w, run)
	if _, err := after.Get(w.Client, run.ID()).Result(w.Ctx); !errors.As(err, &payload) || !flowtest.ContainsAll(payload.What, "result of run", "test.changed") {
		t.Errorf("result of a run: %v", err)
	}
	first.Stop()
	w.Work(worker.Config{}, worded.As(func(_ context.Context, s string) (string, error) { return s, nil }),
		flowtest.As(other, func(ctx workflow.Context, s string) (int, error) { return len(s), nil }),
		flowtest.As(flowtest.One, func(ctx workflow.Context, n int) (int, error) {
			return shim.Call[int](ctx, worded.Step, flowtest.StepArgs[int]{In: n})
		}))
	if err := flowtest.Failure(w, flowtest.Start(w, before, 3)); err.Code != event.CodePayload || !flowtest.ContainsAll(err.Reason, "input of workflow test.changed") {
		t.Errorf("input of a workflow: %v", err)
	}
	if err := flowtest.Failure(w, flowtest.Start(w, flowtest.One, 3)); err.Code != event.CodePayload || !flowtest.ContainsAll(err.Reason, "input of step test.retyped") {
		t.Errorf("input of a step: %v", err)
	}
}

// TestSTEP11_StringsThatAreNotUTF8AreRefusedBySenderAndReceiver proves that senders and receivers
// refuse strings that are not valid UTF-8. Package json would replace the invalid bytes by U+FFFD,
// which would merge two keys of a map.
func TestSTEP11_StringsThatAreNotUTF8AreRefusedBySenderAndReceiver(t *testing.T) {
	type letter struct{ Names map[string]int }
	keys := letter{map[string]int{"caf\xe9": 1, "caf\xe8": 2}}
	mail := workflow.NewTopic[letter]("mail")
	letters, made := flowtest.AStep[string, letter]("made", shim.Policy{}), flowtest.Flow[string, letter]("lettered")
	hook := workflow.NewHook[string]("raw")
	w := flowtest.NewMemory(t)
	tokens := make(chan string, 1)
	w.Work(worker.Config{}, letters.As(func(context.Context, string) (letter, error) { return keys, nil }),
		text.As(func(_ context.Context, in string) (string, error) { return in, nil }),
		flowtest.As(made, func(ctx workflow.Context, what string) (letter, error) {
			var err error
			switch what {
			case "input of step test.text":
				_, err = text.Call(ctx, "caf\xe9")
			case "result of step test.made":
				_, err = letters.Call(ctx, "")
			case "recorded value":
				_, err = workflow.Record(ctx, func() (letter, error) { return keys, nil })
			case "wait":
				h, err := hook.Open(ctx)
				if err != nil {
					return letter{}, err
				}
				tokens <- h.Token()
				_, err = h.Receive(ctx)
				return letter{}, err
			default:
				return keys, nil
			}
			return letter{}, err
		}), flowtest.Parks)
	refused := func(what string, err error) {
		t.Helper()
		var payload *workflow.PayloadError
		if !errors.As(err, &payload) || !flowtest.ContainsAll(payload.What, what) || !flowtest.ContainsAll(err.Error(), "not UTF-8") {
			t.Errorf("%s: got %v, want a *PayloadError that names it", what, err)
		}
	}
	_, err := texts.Start(w.Ctx, w.Client, "caf\xe9")
	refused("input of workflow test.texts", err)
	for _, what := range []string{"input of step test.text", "result of step test.made", "recorded value", "result of workflow test.lettered"} {
		run := flowtest.Start(w, made, what)
		refused(what, flowtest.Failure(w, run))
		if n := len(flowtest.Filter(w.Log(run), event.StepStarted)); n > 1 {
			t.Errorf("%s: %d attempts were made", what, n)
		}
	}
	waits := flowtest.Start(w, made, "wait")
	refused("message of topic mail", mail.Send(w.Ctx, waits, keys))
	token := <-tokens
	w.Eventually("the hook is stored", func() bool { return len(flowtest.Filter(w.Log(waits), event.HookCreated)) > 0 })
	refused("payload of a hook", w.Client.SendToHook(w.Ctx, token, []byte(`"caf`+"\xe9"+`"`)))
	if err := w.Client.SendToHook(w.Ctx, token, []byte(`"café"`)); err != nil {
		t.Error(err)
	}
	_ = flowtest.Result(w, waits)
}
