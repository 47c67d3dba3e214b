package worker_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	text  = aStep[string, string]("text", shim.Policy{})
	texts = flow[string, string]("texts")
)

// big is a text whose stored form is somewhat larger than n bytes.
func big(n int) string { return strings.Repeat("x", n) }

const (
	warned  = 300 << 10
	refused = 2<<20 + 1
)

func payloadError(t *testing.T, err error, what string) {
	t.Helper()
	var payload *workflow.PayloadError
	if !errors.As(err, &payload) || payload.Size <= payload.Limit || payload.Limit != 2<<20 || !containsAll(payload.What, what) {
		t.Errorf("%s: got %.300v, want a *PayloadError with the size and the limit", what, err)
	}
}

func TestSTEP11_PayloadsAboveTheLimitAreRefusedByName(t *testing.T) {
	makes := flow[string, string]("makes")
	w := newMemory(t)
	w.work(worker.Config{}, as(texts, func(_ workflow.Context, in string) (string, error) { return in, nil }),
		text.as(func(_ context.Context, in string) (string, error) { return big(refused), nil }),
		as(makes, func(ctx workflow.Context, what string) (string, error) {
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
	_, err := texts.Start(w.ctx, w.client, big(refused))
	payloadError(t, err, "input of workflow test.texts")
	for _, what := range []string{"input of step test.text", "result of step test.text", "recorded value", "result of workflow test.makes"} {
		run := start(w, makes, what)
		err := failure(w, run)
		payloadError(t, err, what)
		if err.Code != event.CodePayload {
			t.Errorf("%s: got code %s", what, err.Code)
		}
		if n := len(filter(w.log(run), event.StepStarted)); n > 1 {
			t.Errorf("%s: %d attempts were made", what, n)
		}
	}
	payloadError(t, wake.Send(w.ctx, start(w, parker, "x"), big(refused)), "topic wake")
}

func TestSTEP11_LargePayloadsAreLoggedByNameOnceAndKeptWhole(t *testing.T) {
	w := newMemory(t)
	code := []binding{text.as(func(_ context.Context, in string) (string, error) { return in + in, nil }),
		as(texts, func(ctx workflow.Context, in string) (string, error) {
			out, err := text.Call(ctx, in)
			if err != nil {
				return "", err
			}
			rec, err := workflow.Record(ctx, func() (string, error) { return big(warned), nil })
			if err != nil {
				return "", err
			}
			msg, err := wake.Receive(ctx)
			return out + rec + msg, err
		})}
	first := w.work(worker.Config{}, code...)
	run := start(w, texts, big(warned))
	w.reach(run, event.WaitCreated, 1)
	first.stop()
	w.work(worker.Config{}, code...) // replays, and does not warn again
	if err := wake.Send(w.ctx, run, big(warned)); err != nil {
		t.Fatal(err)
	}
	if got := result(w, run); got != big(4*warned) {
		t.Errorf("got %d bytes, want %d", len(got), 4*warned)
	}
	for _, what := range []string{
		"input of workflow test.texts", "input of step test.text", "result of step test.text", "recorded value", "topic wake", "result of workflow test.texts",
	} {
		if n := w.logs.count(what); n != 1 {
			t.Errorf("%s was logged %d times, want once", what, n)
		}
	}
}

func TestSTEP11_TheLimitsAreThoseOfTheClient(t *testing.T) {
	w := newWorld(t, stores["memory"](t), workflow.ClientConfig{MaxPayload: 100, WarnPayload: 10})
	if _, err := echo.Start(w.ctx, w.client, big(200)); err == nil || !containsAll(err.Error(), "the limit is 100") {
		t.Errorf("got %v", err)
	}
	if _, err := echo.Start(w.ctx, w.client, big(92)); err == nil { // {"in":"…"} has 9 bytes more
		t.Error("101 bytes were accepted")
	}
	_ = start(w, echo, big(91))
	if n := w.logs.count("input of workflow test.echo"); n != 1 {
		t.Errorf("logged %d times", n)
	}
}

// explosive cannot be stored.
type explosive struct{ N int }

func (explosive) MarshalJSON() ([]byte, error) { panic("boom") }
func (*explosive) UnmarshalJSON([]byte) error  { panic("bang") }

func TestSTEP11_ValuesThatCannotBeEncodedAreErrorsThatNameThem(t *testing.T) {
	anything := aStep[any, any]("anything", shim.Policy{})
	anyFlow := flow[int, any]("any")
	bad := map[string]any{"channel": make(chan int), "NaN": math.NaN(), "panic": explosive{}, "function": map[string]any{"f": func() {}}}
	for name, v := range bad {
		t.Run(name, func(t *testing.T) {
			w := newMemory(t)
			w.work(worker.Config{}, anything.as(func(context.Context, any) (any, error) { return v, nil }),
				as(anyFlow, func(ctx workflow.Context, what int) (any, error) {
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
				err := failure(w, start(w, anyFlow, what))
				var payload *workflow.PayloadError
				if !errors.As(err, &payload) || payload.What != want || err.Code != event.CodePayload {
					t.Errorf("%s: got code %s, %v", want, err.Code, err)
				}
			}
			anyTopic := workflow.NewTopic[any]("any")
			var payload *workflow.PayloadError
			if err := anyTopic.Send(w.ctx, start(w, parker, "x"), v); !errors.As(err, &payload) {
				t.Errorf("message: got %v", err)
			}
			if _, err := flow[any, int]("in").Start(w.ctx, w.client, v); !errors.As(err, &payload) {
				t.Errorf("input of a workflow: got %v", err)
			}
		})
	}
}

// The types of a step, a workflow and a result have changed since their values were stored.
func TestSTEP11_WhatCannotBeDecodedIsAnErrorThatNamesIt(t *testing.T) {
	numeric := aStep[int, int]("retyped", shim.Policy{})
	worded := aStep[string, string]("retyped", shim.Policy{})
	before, after := flow[int, int]("changed"), flow[int, string]("changed")
	other := flow[string, int]("changed")
	w := newMemory(t)
	var payload *workflow.PayloadError
	first := w.work(worker.Config{}, numeric.as(func(_ context.Context, n int) (int, error) { return n, nil }),
		as(before, func(ctx workflow.Context, n int) (int, error) {
			if v, err := shim.Call[explosive](ctx, numeric.Step, stepArgs[int]{n}); !errors.As(err, &payload) || payload.What != "result of step test.retyped" {
				t.Errorf("a result that panics when it is read: %v, %v", v, err)
			}
			v, err := shim.Call[string](ctx, numeric.Step, stepArgs[int]{n})
			if !errors.As(err, &payload) || payload.What != "result of step test.retyped" {
				t.Errorf("result of a step: %q, %v", v, err)
			}
			return n, nil
		}))
	run := start(w, before, 3)
	_ = result(w, run)
	if _, err := after.Get(w.client, run.ID()).Result(w.ctx); !errors.As(err, &payload) || !containsAll(payload.What, "result of run", "test.changed") {
		t.Errorf("result of a run: %v", err)
	}
	first.stop()
	w.work(worker.Config{}, worded.as(func(_ context.Context, s string) (string, error) { return s, nil }),
		as(other, func(ctx workflow.Context, s string) (int, error) { return len(s), nil }),
		as(one, func(ctx workflow.Context, n int) (int, error) {
			return shim.Call[int](ctx, worded.Step, stepArgs[int]{n})
		}))
	if err := failure(w, start(w, before, 3)); err.Code != event.CodePayload || !containsAll(err.Reason, "input of workflow test.changed") {
		t.Errorf("input of a workflow: %v", err)
	}
	if err := failure(w, start(w, one, 3)); err.Code != event.CodePayload || !containsAll(err.Reason, "input of step test.retyped") {
		t.Errorf("input of a step: %v", err)
	}
}

// Package json would write each as U+FFFD, and make one key of two.
func TestSTEP11_StringsThatAreNotUTF8AreRefusedBySenderAndReceiver(t *testing.T) {
	type letter struct{ Names map[string]int }
	keys := letter{map[string]int{"caf\xe9": 1, "caf\xe8": 2}}
	mail := workflow.NewTopic[letter]("mail")
	letters, made := aStep[string, letter]("made", shim.Policy{}), flow[string, letter]("lettered")
	hook := workflow.NewHook[string]("raw")
	w := newMemory(t)
	tokens := make(chan string, 1)
	w.work(worker.Config{}, letters.as(func(context.Context, string) (letter, error) { return keys, nil }),
		text.as(func(_ context.Context, in string) (string, error) { return in, nil }),
		as(made, func(ctx workflow.Context, what string) (letter, error) {
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
		}), parks)
	refused := func(what string, err error) {
		t.Helper()
		var payload *workflow.PayloadError
		if !errors.As(err, &payload) || !containsAll(payload.What, what) || !containsAll(err.Error(), "not UTF-8") {
			t.Errorf("%s: got %v, want a *PayloadError that names it", what, err)
		}
	}
	_, err := texts.Start(w.ctx, w.client, "caf\xe9")
	refused("input of workflow test.texts", err)
	for _, what := range []string{"input of step test.text", "result of step test.made", "recorded value", "result of workflow test.lettered"} {
		run := start(w, made, what)
		refused(what, failure(w, run))
		if n := len(filter(w.log(run), event.StepStarted)); n > 1 {
			t.Errorf("%s: %d attempts were made", what, n)
		}
	}
	waits := start(w, made, "wait")
	refused("message of topic mail", mail.Send(w.ctx, waits, keys))
	token := <-tokens
	refused("payload of a hook", w.client.SendToHook(w.ctx, token, []byte(`"caf`+"\xe9"+`"`)))
	if err := w.client.SendToHook(w.ctx, token, []byte(`"café"`)); err != nil {
		t.Error(err)
	}
	_ = result(w, waits)
}
