package attributes_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

var (
	family = flowtest.Flow[string, []string]("family")
	reads  = flowtest.AStep[string, string]("reads", shim.Policy{})
	afar   = flowtest.AStep[string, string]("afar", shim.Policy{Queue: "elsewhere"})
)

// grow uses each edge of the propagation rule: steps on both queues, a child, a detached child, a
// message from outside and one from a run, a hook, a question, a step that is completed from outside,
// and a continuation. It returns what it has read.
func grow(ctx workflow.Context, in string) (all []string, err error) {
	note := func(at string, m map[string]string) { all = append(all, fmt.Sprint(at, " ", m)) }
	note("code", workflow.Attributes(ctx))
	for _, call := range []flowtest.StepOf[string, string]{reads, afar} {
		got, err := call.Call(ctx, "")
		if err != nil {
			return all, err
		}
		all = append(all, got)
	}
	switch in {
	case "child":
		return all, words.SendFrom(ctx, workflow.Info(ctx).Parent, "told")
	case "last":
		return all, nil
	}
	wonders.Handle(ctx, nil, func(ctx workflow.Context, _ string) (map[string]string, error) {
		note("question", workflow.MessageAttributes(ctx))
		return nil, nil
	})
	below, err := family.Child(ctx, "child")
	detached, also := family.StartChild(workflow.Detached(ctx), "last", workflow.WithParentClose(workflow.ParentCloseAbandon)).Get(ctx)
	all = append(append(all, below...), detached...)
	_, told := words.Receive(ctx)
	note("message of a run", workflow.MessageAttributes(ctx))
	hook, opened := calls.Open(ctx)
	if err := errors.Join(err, also, told, opened); err != nil {
		return all, err
	}
	_, err = hook.Receive(ctx)
	note("hook", workflow.MessageAttributes(ctx))
	_, told = words.Receive(ctx)
	note("message", workflow.MessageAttributes(ctx))
	_, also = finishes.Call(ctx, "")
	workflow.CloseAsks(ctx)
	if err := errors.Join(err, told, also); err != nil {
		return all, err
	}
	seen.Set(ctx, all)
	return nil, family.ContinueAsNew(ctx, "last")
}

var seen = workflow.NewValue[[]string]("attributes.seen")

// setupFamily prepares an Env in which clients with other attributes send to the run.
func setupFamily(env *workflowtest.Env) {
	tell := func(ctx context.Context, _ string) (string, error) {
		return fmt.Sprint("step ", step.Attributes(ctx)), nil
	}
	for _, bind := range []flowtest.Binding{flowtest.As(family, grow), reads.As(tell), afar.As(tell), finishes.As(later)} {
		bind(env)
	}
	workflowtest.StubHook(env, calls, workflowtest.Payload[string]{After: time.Minute, Value: "paid"})
	workflowtest.StubHook(env, done, workflowtest.Payload[string]{After: time.Minute, Value: "done"})
	from := func(at time.Duration, item string, send func(context.Context) error) {
		env.At(at, func(ctx context.Context) {
			if err := send(workflow.WithAttribute(ctx, "item", item)); err != nil && !errors.Is(err, workflow.ErrRunTerminal) && ctx.Err() == nil {
				panic(err)
			}
		})
	}
	from(time.Hour, "question", func(ctx context.Context) error { _, err := wonders.Ask(ctx, env.Run(), "why"); return err })
	from(2*time.Hour, "message", func(ctx context.Context) error { return words.Send(ctx, env.Run(), "m") })
}

// TestEV11_AttributesSurviveEveryCrash proves that a workflow that uses each edge reads the same
// attributes wherever its worker dies, and that each run of it has them.
func TestEV11_AttributesSurviveEveryCrash(t *testing.T) {
	report := workflowtest.CrashEverywhere(t, family, "", setupFamily, workflowtest.WithQueues("elsewhere"), workflowtest.Pairs(30),
		workflowtest.StartContext(requested), workflowtest.Check(func(t testing.TB, e *workflowtest.Env, run workflowtest.Outcome) {
			if run.Status != workflow.StatusCompleted {
				return // a cancel has ended it
			}
			got, _, err := seen.Get(e.Context(), e.Run())
			want := []string{
				"code " + shownGiven, "step " + shownGiven, "step " + shownGiven, // of the run
				"code " + shownGiven, "step " + shownGiven, "step " + shownGiven, // of its child
				"code " + shownGiven, "step " + shownGiven, "step " + shownGiven, // of its detached child
				"message of a run " + shownGiven, "hook map[]", "question map[item:question]", "message map[item:message]",
			}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("what the code has read, %v (-want +got):\n%s", err, diff)
			}
			for info, err := range e.Client().List(e.Context(), workflow.Filter{Internal: true}) {
				one, also := e.Client().Run(info.ID).Info(e.Context())
				if err != nil || also != nil || !cmp.Equal(one.Attributes, given) && info.Workflow != event.HookRun {
					t.Errorf("run %s of %s has %v, %v, %v", info.ID, info.Workflow, one.Attributes, err, also)
				}
			}
		}))
	t.Logf("%+v", report)
}

var shownGiven = fmt.Sprint(given)
