package flows_test

import (
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/examples/guide/flows"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

func TestSign_IsFinishedByAReport(t *testing.T) {
	env := workflowtest.New(t)
	flows.Register(env, nil)
	run, err := flows.Signing.Start(t.Context(), env.Client(), "rent")
	if err != nil {
		t.Fatal(err)
	}
	env.Advance(80 * time.Hour) // There is no report in the first three days.
	var tokens []string
	for e, err := range run.Events(t.Context(), workflow.Types(event.StepHookCreated)) {
		if err != nil {
			t.Fatal(err)
		}
		if tokens = append(tokens, e.Token); len(tokens) == 2 {
			break
		}
	}
	if err := flows.SignatureReport(t.Context(), env.Client(), tokens[0], "ann", false); !errors.Is(err, workflow.ErrHookDisposed) {
		t.Errorf("the token of the first time: got %v, want ErrHookDisposed", err)
	}
	for range 2 { // The service may repeat a report.
		if err := flows.SignatureReport(t.Context(), env.Client(), tokens[1], "ann", false); err != nil {
			t.Error(err)
		}
	}
	if err := flows.SignatureReport(t.Context(), env.Client(), tokens[1], "bob", false); !errors.Is(err, workflow.ErrHookAnswered) {
		t.Errorf("another report: got %v, want ErrHookAnswered", err)
	}
	if got, err := run.Result(t.Context()); got != "rent is signed by ann" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestSign_IsAskedAgainIfItFails(t *testing.T) {
	env := workflowtest.New(t)
	flows.Register(env, nil)
	workflowtest.StubHook(env, flows.Signed, workflowtest.Payload[flows.Signature]{After: time.Hour, Err: flows.ErrDeclined})
	_, err := flows.Signing.Execute(t.Context(), env.Client(), "rent")
	failed, ok := errors.AsType[*workflow.StepError](err)
	if !ok || failed.Attempts != 3 || !errors.Is(err, flows.ErrDeclined) { // The stub does not mark the error as fatal, so the step is retried.
		t.Errorf("got %v, want ErrDeclined after three attempts", err)
	}
}

func TestSign_SurvivesEveryCrash(t *testing.T) {
	workflowtest.CrashEverywhere(t, flows.Signing, "rent", func(env *workflowtest.Env) {
		flows.Register(env, nil)
		workflowtest.StubHook(env, flows.Signed, workflowtest.Payload[flows.Signature]{After: time.Hour, Value: flows.Signature{By: "ann"}})
	}, workflowtest.Pairs(0))
}
