package steps_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// paidBody is the body of a callback from a payment service.
type paidBody struct {
	Cents int  `json:"cents"`
	Card  card `json:"card"`
}

// card is a type with its own UnmarshalJSON method, which refuses or panics for some values.
type card string

func (c *card) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, (*string)(c)); err != nil {
		return err
	}
	switch *c {
	case "stolen":
		return errors.New("the card is stolen")
	case "mad":
		panic("a mad card")
	}
	return nil
}

var (
	paidFor  = workflow.NewHook[paidBody]("paid-for")
	selling  = flowtest.Flow[string, []int]("selling")
	sellStep = flowtest.AStep[int, int]("sell-work", shim.Policy{})
)

// sellTwice opens a hook, calls a step and then takes two payloads. If own is not empty, it is the
// token of the hook.
var sellTwice = flowtest.As(selling, func(ctx workflow.Context, own string) ([]int, error) {
	var opts []workflow.HookOption
	if own != "" {
		opts = append(opts, workflow.Token(own))
	}
	hook, err := paidFor.Open(ctx, opts...)
	if err != nil {
		return nil, err
	}
	if _, err := sellStep.Call(ctx, 1); err != nil {
		return nil, err
	}
	flowtest.Token.Set(ctx, hook.Token())
	var all []int
	for range 2 {
		v, err := hook.Receive(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, v.Cents)
	}
	return all, nil
})

// TestFLOW6_APayloadThatDoesNotFitIsRefusedToItsSender proves that the sender of a payload of the
// wrong type gets an error, and that the run continues with payloads that fit.
func TestFLOW6_APayloadThatDoesNotFitIsRefusedToItsSender(t *testing.T) {
	for name, own := range map[string]string{"a random token": "", "a token of one's own": "order-7"} {
		t.Run(name, func(t *testing.T) {
			flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
				first := w.Work(worker.Config{Parked: 1}, sellTwice, sellStep.As(func(_ context.Context, n int) (int, error) { return n, nil }))
				run := flowtest.Start(w, selling, own)
				tok := w.TokenOf(run)
				refuse := func(when string) {
					t.Helper()
					var bad *workflow.PayloadError
					for _, body := range []string{`"text"`, `{"cents":"7"}`, `[1]`, `{"cents":1.5}`} {
						err := w.Client.SendToHook(w.Ctx, tok, json.RawMessage(body))
						if !errors.As(err, &bad) || !strings.Contains(bad.Error(), "payload of hook paid-for") {
							t.Errorf("%s, %s: got %v, want a *PayloadError that names the hook", when, body, err)
						}
					}
					if err := workflow.NewHook[string]("paid-for").Send(w.Ctx, w.Client, tok, "text"); !errors.As(err, &bad) {
						t.Errorf("%s, from a hook of another type: got %v, want a *PayloadError", when, err)
					}
				}
				refuse("while the run waits")
				first.Stop()
				refuse("while nobody works on it")
				w.Work(worker.Config{}, sellTwice, sellStep.As(func(_ context.Context, n int) (int, error) { return n, nil }))
				for _, body := range []string{`{"cents":1,"more":true}`, `{"cents":2,"card":"good"}`} {
					if err := w.Client.SendToHook(w.Ctx, tok, json.RawMessage(body)); err != nil {
						t.Fatal(err)
					}
				}
				if diff := cmp.Diff([]int{1, 2}, flowtest.Result(w, run)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if n := len(flowtest.Filter(w.Log(run), event.HookReceived, event.HookMissed)); n != 2 {
					t.Errorf("the log holds %d payloads, want 2", n)
				}
			})
		})
	}
}

// TestFLOW6_APayloadThatCannotBeReadIsSkippedAndRecorded proves that a payload is skipped, recorded
// and logged if only the UnmarshalJSON method of its type can refuse it.
func TestFLOW6_APayloadThatCannotBeReadIsSkippedAndRecorded(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		work := sellStep.As(func(_ context.Context, n int) (int, error) { return n, nil })
		first := w.Work(worker.Config{Parked: 1}, sellTwice, work)
		run := flowtest.Start(w, selling, "")
		tok := w.TokenOf(run)
		send := func(bodies ...string) {
			t.Helper()
			for _, body := range bodies {
				if err := w.Client.SendToHook(w.Ctx, tok, json.RawMessage(body)); err != nil {
					t.Fatal(err)
				}
			}
		}
		send(`{"cents":1,"card":"stolen"}`, `{"cents":2,"card":"mad"}`, `{"cents":3,"card":"good"}`)
		w.Reach(run, event.HookReceived, 1)
		first.Stop()
		send(`{"cents":4,"card":"stolen"}`, `{"cents":5}`)
		w.Work(worker.Config{}, sellTwice, work)
		if diff := cmp.Diff([]int{3, 5}, flowtest.Result(w, run)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		missed := flowtest.Filter(w.Log(run), event.HookMissed)
		if len(missed) != 3 {
			t.Fatalf("%d payloads were skipped, want 3: %+v", len(missed), missed)
		}
		for i, why := range []string{"the card is stolen", "a mad card", "the card is stolen"} {
			if f := missed[i].Failure; f == nil || !strings.Contains(f.Message, why) || missed[i].Item == "" {
				t.Errorf("skipped payload %d: %+v, want %q", i, missed[i], why)
			}
		}
		w.StopWorkers()
		if logged := strings.Count(w.Logs.String(), "a payload does not fit its hook"); logged != 3 {
			t.Errorf("%d lines about skipped payloads, want 3", logged)
		}
		log := w.Log(run)
		if unread := log[len(log)-1].Unread; len(unread) != 3 {
			t.Errorf("%d payloads are listed as unread, want 3", len(unread))
		}
		if found := w.Check(); len(found) > 0 {
			t.Errorf("%+v", found)
		}
	})
}
