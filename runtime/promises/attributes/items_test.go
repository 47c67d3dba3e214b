package attributes_test

import (
	"context"
	"errors"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	words    = workflow.NewTopic[string]("words")
	calls    = workflow.NewHook[string]("calls")
	done     = workflow.NewHook[string]("done")
	wonders  = workflow.NewAsk[string, map[string]string]("wonders")
	finishes = flowtest.AStep[string, string]("finishes", shim.Policy{Retry: flowtest.Quick})
	hears    = flowtest.Flow[string, []heard]("hears")
	tells    = flowtest.Flow[workflow.RunID, string]("tells")
)

// heard contains the attributes that the code has read at one place: those of the last item, and
// those of the run.
type heard struct {
	At        string
	Item, Run map[string]string
}

// hear notes the attributes after each way to receive an item.
func hear(ctx workflow.Context, in string) (all []heard, err error) {
	note := func(ctx workflow.Context, at string) {
		all = append(all, heard{at, workflow.MessageAttributes(ctx), workflow.Attributes(ctx)})
	}
	if in == "later" { // the continuation of a run that has left its messages
		_, err := words.Receive(ctx)
		note(ctx, "carried over")
		return all, err
	}
	wonders.Handle(ctx, nil, func(ctx workflow.Context, _ string) (map[string]string, error) {
		return workflow.MessageAttributes(ctx), nil
	})
	note(ctx, "nothing")
	_, err = words.Receive(ctx)
	note(ctx, "receive")
	_, _, also := words.TryReceive(ctx)
	note(ctx, "try to receive")
	hook, failed := calls.Open(ctx)
	if err = errors.Join(err, also, failed); err != nil {
		return all, err
	}
	flowtest.Token.Set(ctx, hook.Token())
	_, err = hook.Receive(ctx)
	note(ctx, "hook")
	_, also = workflow.Select(ctx, words.Case(), hook.Case())
	note(ctx, "select of a hook")
	workflow.Go(ctx, func(ctx workflow.Context) (string, error) { note(ctx, "branch"); return "", nil }).Get(ctx) //nolint:errcheck // it returns nil
	flowtest.Token.Set(ctx, "next")
	_, failed = workflow.Select(ctx, hook.Case(), words.Case())
	note(ctx, "select of a message")
	if err = errors.Join(err, also, failed); err != nil {
		return all, err
	}
	_, err = words.Receive(ctx)
	note(ctx, "message of a run")
	if _, also = finishes.Call(ctx, in); err != nil || also != nil {
		return all, errors.Join(err, also)
	}
	note(ctx, "step completed from outside")
	return all, nil
}

// sent returns a context whose attributes identify one item.
func sent(w *flowtest.World, item string) context.Context {
	return workflow.WithAttribute(workflow.OnBehalfOf(w.Ctx, "eve"), "item", item)
}

func of(item string) map[string]string { return map[string]string{"item": item, "principal": "eve"} }

func serveItems(w *flowtest.World) {
	w.Work(worker.Config{}, flowtest.As(hears, hear), flowtest.As(tells, func(ctx workflow.Context, to workflow.RunID) (string, error) {
		return "", words.SendFrom(ctx, to, "told")
	}), finishes.As(later))
}

// later is the code of a step whose attempts are completed from outside.
func later(ctx context.Context, _ string) (string, error) {
	later, err := step.Later(ctx, done)
	if err != nil {
		return "", err
	}
	return later.Pending()
}

// TestEV11_TheAttributesOfAnItemApplyOnlyToItsHandling proves that the code which handles a message,
// a payload or a question reads the attributes of its sender, in each way of receiving it, while the
// attributes of the run stay. The log contains them.
func TestEV11_TheAttributesOfAnItemApplyOnlyToItsHandling(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		serveItems(w)
		run, err := hears.Start(requested(w.Ctx), w.Client, "", workflow.WithMessage(words, "1"), workflow.WithMessage(words, "2"))
		flowtest.Order(t, err)
		flowtest.Order(t, calls.Send(sent(w, "hook"), w.Client, w.TokenOf(run), "3"))
		flowtest.Order(t, w.Client.SendToHook(sent(w, "select"), w.TokenOf(run), []byte(`"4"`)))
		w.Reach(run, event.HookReceived, 2)
		w.Eventually("the code waits for a message", func() bool { v, _, err := flowtest.Token.Get(w.Ctx, run); return err == nil && v == "next" })
		flowtest.Order(t, words.Send(sent(w, "message"), run, "5"))
		w.Reach(run, event.MessageReceived, 3)
		question, err := wonders.Ask(sent(w, "question"), run, "why")
		if flowtest.Order(t, err); !cmp.Equal(question, of("question")) {
			t.Errorf("the code that answers a question has read %v, want %v", question, of("question"))
		}
		teller, err := tells.Start(workflow.WithAttribute(w.Ctx, "item", "teller"), w.Client, run.ID())
		flowtest.Order(t, err)
		flowtest.Result(w, teller)
		flowtest.Order(t, done.Fail(sent(w, "failure"), w.Client, w.Reach(run, event.StepHookCreated, 1).Token, flowtest.ErrBusy))
		flowtest.Order(t, done.Send(sent(w, "outcome"), w.Client, w.Reach(run, event.StepHookCreated, 2).Token, "done"))
		got := flowtest.Result(w, run)

		own := maps.Clone(given)
		own["build"] = got[0].Run["build"]
		first := maps.Clone(given)
		want := []heard{
			{"nothing", nil, own}, {"receive", first, own}, {"try to receive", first, own}, {"hook", of("hook"), own},
			{"select of a hook", of("select"), own}, {"branch", of("select"), own}, {"select of a message", of("message"), own},
			{"message of a run", map[string]string{"item": "teller"}, own}, {"step completed from outside", map[string]string{"item": "teller"}, own},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what the code has read (-want +got):\n%s", diff)
		}
		for typ, want := range map[event.Type]map[string]string{
			event.AskAccepted: of("question"), event.StepRetrying: of("failure"), event.StepCompleted: of("outcome"),
		} {
			if e := w.Reach(run, typ, 1); !cmp.Equal(e.Origin(), want) {
				t.Errorf("%s has %v, want %v", typ, e.Origin(), want)
			}
		}
		w.Healthy()
	})
}

// TestEV11_AMessageKeepsItsAttributesWhenItsRunContinues proves that a message which a run has not
// received has the same attributes in the run that continues it.
func TestEV11_AMessageKeepsItsAttributesWhenItsRunContinues(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		leaves := flowtest.Flow[string, []heard]("leaves")
		w.Work(worker.Config{}, flowtest.As(leaves, func(ctx workflow.Context, in string) ([]heard, error) {
			if in == "" {
				if _, err := workflow.NewTopic[int]("go").Receive(ctx); err != nil {
					return nil, err
				}
				return nil, leaves.ContinueAsNew(ctx, "later")
			}
			return hear(ctx, in)
		}))
		run := flowtest.Start(w, leaves, "")
		flowtest.Order(t, words.Send(sent(w, "left"), run, "1"))
		flowtest.Order(t, workflow.NewTopic[int]("go").Send(w.Ctx, run, 1))
		got := flowtest.Result(w, run)
		want := []heard{{"carried over", of("left"), got[0].Run}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("what the code has read (-want +got):\n%s", diff)
		}
	})
}
