package control_test

import (
	"testing"

	"github.com/flowgen/flowgen/examples/guide/control"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

func TestPreview_IsDrawnOnTheQueueOfTheCallersChoice(t *testing.T) {
	env := workflowtest.New(t, workflowtest.WithQueues("slow-gpu"))
	control.Register(env, nil, nil, &control.Studio{})
	for queue, want := range map[string]string{"slow-gpu": "slow-gpu", workflow.DefaultQueue: ""} {
		run, err := control.Preview.Start(t.Context(), env.Client(), control.PreviewInput{Scene: "one", Queue: queue})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := run.Result(t.Context()); got != "picture of one" || err != nil {
			t.Errorf("%s: got %q, %v", queue, got, err)
		}
		sent := ""
		for e := range run.Events(t.Context(), workflow.Types(event.ChildCreated)) {
			sent = e.Spec.Queue
		}
		if sent != want {
			t.Errorf("%s: the step was sent to queue %q, want %q", queue, sent, want)
		}
	}
}
