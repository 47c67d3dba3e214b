package runs_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// differs returns the *InputDiffersError in err. It fails the test if there is none.
func differs(t *testing.T, err error) workflow.InputDiffersError {
	t.Helper()
	found, ok := errors.AsType[*workflow.InputDiffersError](err)
	if !ok {
		t.Fatalf("got %v, want an *InputDiffersError", err)
	}
	return *found
}

func TestRUN2_AStartReportsOrRefusesAnActiveRunWithAnotherInput(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		id, same := workflow.WithID("id"), workflow.WithSameInput()
		first := flowtest.Start(w, flowtest.Parker, "x", id, same)
		for _, input := range []string{"x", "y"} {
			run := flowtest.Start(w, flowtest.Parker, input, id)
			if run.ID() != first.ID() || run.Created() || run.SameInput() != (input == "x") {
				t.Errorf("input %s: got run %s, created %v, same input %v, want run %s", input, run.ID(), run.Created(), run.SameInput(), first.ID())
			}
		}
		if !first.Created() || !first.SameInput() || flowtest.Parker.Get(w.Client, first.ID()).SameInput() {
			t.Errorf("the first start: created %v, same input %v; a handle from Get must not report the same input", first.Created(), first.SameInput())
		}
		_, err := flowtest.Parker.Start(w.Ctx, w.Client, "y", id, same, workflow.WithMessage(flowtest.Wake, "up"))
		if d := cmp.Diff(workflow.InputDiffersError{WorkflowID: "id", Run: first.ID()}, differs(t, err)); d != "" {
			t.Errorf("the error (-want +got):\n%s", d)
		}
		if n := w.Inbox(first); n != 0 {
			t.Errorf("the refused start has sent %d messages, want 0", n)
		}
		many, err := flowtest.Parker.StartMany(w.Ctx, w.Client, []workflow.StartRequest[string]{
			{Input: "y", Options: []workflow.StartOption{id}},
			{Input: "z", Options: []workflow.StartOption{workflow.WithID("other"), same}},
			{Input: "y", Options: []workflow.StartOption{id, same}},
			{Input: "x", Options: []workflow.StartOption{id, same, workflow.WithMessage(flowtest.Wake, "up")}},
		})
		if err != nil {
			t.Fatal(err)
		}
		differs(t, many[2].Err)
		for n, want := range map[int]bool{0: false, 1: true, 3: true} {
			if got := many[n]; got.Err != nil || got.Run.SameInput() != want {
				t.Errorf("start %d of many: got %+v, want the same input: %v", n, got, want)
			}
		}
		if n := w.Inbox(first); n != 1 {
			t.Errorf("the run has %d messages, want 1", n)
		}
	})
}

func TestRUN2_ARunThatContinuedIsComparedByItsFirstInput(t *testing.T) {
	continues := flowtest.Flow[int, string]("sameinput.continues")
	code := flowtest.As(continues, func(ctx workflow.Context, n int) (string, error) {
		if n < 3 {
			return "", continues.ContinueAsNew(ctx, n+1)
		}
		return flowtest.Wake.Receive(ctx)
	})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, code)
		id, same := workflow.WithID("id"), workflow.WithSameInput()
		first := flowtest.Start(w, continues, 1, id)
		var last *workflow.Run[string]
		w.Eventually("the last run of the chain to wait", func() bool {
			info, err := w.Client.RunByID("id").Info(w.Ctx)
			last = continues.Get(w.Client, info.ID)
			return err == nil && info.ID != first.ID() && w.Parked(last)
		})
		if run := flowtest.Start(w, continues, 1, id, same); run.ID() != last.ID() || !run.SameInput() {
			t.Errorf("the first input: got run %s, same input %v, want run %s and true", run.ID(), run.SameInput(), last.ID())
		}
		_, err := continues.Start(w.Ctx, w.Client, 3, id, same)
		if d := cmp.Diff(workflow.InputDiffersError{WorkflowID: "id", Run: last.ID()}, differs(t, err)); d != "" {
			t.Errorf("the input of the last run (-want +got):\n%s", d)
		}
		if err := ops.New(w.Client).Delete(w.Ctx, first.ID()); err != nil {
			t.Fatal(err)
		}
		if run := flowtest.Start(w, continues, 1, id); run.ID() != last.ID() || run.SameInput() {
			t.Errorf("after the deletion: got run %s, same input %v, want run %s and false", run.ID(), run.SameInput(), last.ID())
		}
		_, err = continues.Start(w.Ctx, w.Client, 1, id, same)
		if d := cmp.Diff(workflow.InputDiffersError{WorkflowID: "id", Run: last.ID(), Unknown: true}, differs(t, err)); d != "" {
			t.Errorf("after the deletion (-want +got):\n%s", d)
		}
	})
}

func TestRUN2_InputsAreComparedAsJSON(t *testing.T) {
	raw := flowtest.Flow[json.RawMessage, int]("sameinput.raw")
	w := flowtest.NewMemory(t)
	for name, tt := range map[string]struct {
		stored, given string
		want          bool
	}{
		"order":    {`{"a":1,"b":[{"c":2,"d":3}]}`, `{ "b": [ {"d":3,"c":2} ], "a":1}`, true},
		"escapes":  {`"\u00e9<"`, `"é\u003c"`, true},
		"elements": {`[1,2]`, `[2,1]`, false},
		"numbers":  {`1`, `1.0`, false},
		"large":    {`9007199254740993`, `9007199254740992`, false},
		"null":     {`{"a":null}`, `{}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			flowtest.Start(w, raw, json.RawMessage(tt.stored), workflow.WithID(name))
			if got := flowtest.Start(w, raw, json.RawMessage(tt.given), workflow.WithID(name)).SameInput(); got != tt.want {
				t.Errorf("%s and %s: got %v, want %v", tt.stored, tt.given, got, tt.want)
			}
		})
	}
}

func TestRUN2_StartsThatShareARunHaveNoInputToCompare(t *testing.T) {
	shared := shim.NewWorkflow[string, int]("test.sameinput.shared", "in", shim.WorkflowPolicy{
		Collect: shim.Debounce(func(string) string { return "" }, time.Hour, time.Hour),
	})
	w := flowtest.NewMemory(t)
	for _, want := range []bool{true, false} {
		if run := flowtest.Start(w, shared, "x"); run.Created() != want || run.SameInput() {
			t.Errorf("got created %v, same input %v, want %v and false", run.Created(), run.SameInput(), want)
		}
	}
	if _, err := shared.Start(w.Ctx, w.Client, "x", workflow.WithSameInput()); err == nil || !flowtest.ContainsAll(err.Error(), "WithSameInput", "remove the option") {
		t.Errorf("got %v, want a refusal of the option", err)
	}
}

func TestRUN2_ResultOfAHandleOfAnotherWorkflowFailsAtOnce(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Near = true
		begun, release := make(chan struct{}, 1), make(chan struct{})
		w.Work(worker.Config{}, flowtest.Calls, flowtest.Work1.As(func(context.Context, int) (int, error) {
			begun <- struct{}{}
			<-release
			return 1, nil
		}))
		run := flowtest.Start(w, flowtest.One, 1, workflow.WithID("id"))
		<-begun
		for name, handle := range map[string]*workflow.Run[string]{
			"id": flowtest.Echo.Get(w.Client, run.ID()), "workflow id": flowtest.Echo.GetByID(w.Client, "id"),
		} {
			if _, err := handle.Result(w.Ctx); !errors.Is(err, workflow.ErrWrongWorkflow) {
				t.Errorf("handle by %s: got %v, want an ErrWrongWorkflow", name, err)
			}
		}
		close(release)
		if got := flowtest.Result(w, run); got != 1 {
			t.Errorf("got %d, want 1", got)
		}
	})
}
