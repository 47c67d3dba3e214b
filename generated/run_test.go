package generated_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/flowgen/flowgen/generated/builtins"
	"github.com/flowgen/flowgen/generated/functions"
	"github.com/flowgen/flowgen/generated/graphs"
	"github.com/flowgen/flowgen/generated/imports"
	"github.com/flowgen/flowgen/generated/methods"
	"github.com/flowgen/flowgen/generated/policies"
	"github.com/flowgen/flowgen/generated/workflows"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// serve starts a worker on a fresh store that knows the golden packages, and
// returns a client for it.
func serve(t *testing.T) *workflow.Client {
	t.Helper()
	client := workflow.NewClient(memstore.New(), workflow.ClientConfig{})
	w := worker.New(client, worker.Config{})
	builtins.Register(w)
	functions.Register(w)
	graphs.Register(w, &graphs.LLM{Prefix: "on "}, echo)
	imports.Register(w)
	methods.Register(w, methods.Clock{}, same, &methods.Shop{}, &methods.Store{}, methods.Base{})
	policies.Register(w)
	workflows.Register(w)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("worker: %v", err)
		}
		if err := client.Close(); err != nil {
			t.Errorf("close client: %v", err)
		}
	})
	return client
}

func echo(_ context.Context, what string) (string, error) { return what, nil }

// limited is a context that ends before a hanging test does.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestGolden_FunctionsRun(t *testing.T) {
	got, err := functions.Fulfil.Execute(limited(t), serve(t), "ada")
	if err != nil || got.ID != "ada" {
		t.Errorf("Fulfil: %+v, %v; want the receipt of ada", got, err)
	}
}

func TestGolden_AliasesRun(t *testing.T) {
	got, err := functions.Send.Execute(limited(t), serve(t), functions.Key[functions.Purchase]{Name: "o"})
	if want := (functions.Pair[functions.ID]{"o", "o/2"}); err != nil || got != want {
		t.Errorf("Send: %v, %v; want %v", got, err, want)
	}
}

func TestGolden_ShadowedBuiltinsRun(t *testing.T) {
	got, err := builtins.Total.Execute(limited(t), serve(t), builtins.Word([]byte("three")))
	if err != nil || got.N != 3 {
		t.Errorf("Total: %v, %v; want 3", got, err)
	}
}

func TestGolden_PackagesThatCallEachOtherRun(t *testing.T) {
	got, err := imports.Collect.Execute(limited(t), serve(t), functions.Invoice{Order: "o", Cents: 7})
	if want := "own-o charge-o"; err != nil || got != want {
		t.Errorf("Collect: %q, %v; want %q", got, err, want)
	}
}

func TestGolden_TheNewestWayOfAVersionRuns(t *testing.T) {
	client := serve(t)
	run, err := functions.Order.Start(limited(t), client, "lamp")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := run.Result(limited(t)); err != nil || got != "reserved lamp" {
		t.Errorf("Order: %q, %v", got, err)
	}
	var steps []string
	for e, err := range run.Events(limited(t)) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == event.StepCreated {
			steps = append(steps, e.Name)
		}
	}
	if want := []string{"functions.inspect", "functions.reserve"}; !slices.Equal(steps, want) {
		t.Errorf("steps %v, want %v", steps, want)
	}
}

func TestGolden_GraphsRun(t *testing.T) {
	client := serve(t)
	for in, want := range map[graphs.ResearchInput]graphs.Report{
		{Question: "life universe", Tone: "mild"}:      {Title: "life universe", Text: "on life.on universe."},
		{Question: "life universe", Tone: "strict"}:    {Title: "life universe", Text: "on life.on universe.well done"},
		{Question: "one two six four", Tone: "strict"}: {Title: "one two six four", Text: "on one.on two.on six.on four."}, // the review fails
	} {
		if got, err := graphs.Research.Execute(limited(t), client, in); err != nil || got != want {
			t.Errorf("%+v: %+v, %v; want %+v", in, got, err, want)
		}
	}
	if _, err := graphs.Nightly.Execute(limited(t), client, workflow.None{}); err != nil {
		t.Errorf("Nightly: %v", err)
	}
	if got, err := graphs.Study.Execute(limited(t), client, graphs.ResearchInput{Question: "why"}); err != nil || got.Copy != "copy true" || got.End == nil || *got.End != "end 12" {
		t.Errorf("Study: %+v, %v", got, err)
	}
}

func TestGolden_VariadicParametersArrive(t *testing.T) {
	client := serve(t)
	got, err := functions.All.Execute(limited(t), client, []string{"eu", "us"})
	if err != nil || got != 2 {
		t.Errorf("All of two regions: %d, %v; want 2", got, err)
	}
	if _, err := functions.Some.Execute(limited(t), client, functions.SomeInput{Limit: 1, Regions: []string{"eu"}}); err != nil {
		t.Errorf("Some: %v", err)
	}
}

func TestGolden_AWorkerCreatesTheSchedulesOfItsDirectives(t *testing.T) {
	client, ctx := serve(t), limited(t)
	for name, when := range map[string]string{workflows.Clean.Name(): "30 2 * * * Europe/Zurich", workflows.Sweep.Name(): "every 10m"} {
		info, err := ops.New(client).Schedules().Get(ctx, name)
		for errors.Is(err, ops.ErrScheduleNotFound) {
			runtime.Gosched()
			info, err = ops.New(client).Schedules().Get(ctx, name)
		}
		if err != nil || info.When != when || info.Workflow != name {
			t.Errorf("schedule %s: got %+v, %v; want %q", name, info, err, when)
		}
	}
}

func TestGolden_SeveralInputsArrive(t *testing.T) {
	got, err := workflows.Transfer.Execute(limited(t), serve(t), workflows.TransferInput{From: "a", To: "b", Cents: 7, Cents2: true})
	if err != nil || got != 7 {
		t.Errorf("Transfer: %d, %v; want 7", got, err)
	}
}

func TestGolden_NoneGoesInAndOut(t *testing.T) {
	client := serve(t)
	if _, err := workflows.Nightly.Execute(limited(t), client, workflow.None{}); err != nil {
		t.Errorf("Nightly: %v", err)
	}
	if _, err := workflows.Archive.Execute(limited(t), client, 5); err != nil {
		t.Errorf("Archive: %v", err)
	}
}

func TestGolden_RenamedImportsRun(t *testing.T) {
	if _, err := imports.Flow.Execute(limited(t), serve(t), imports.FlowInput{R: "x"}); err != nil {
		t.Errorf("Flow: %v", err)
	}
}

// Its only step fails with retries=0.
func TestGolden_PoliciesReachTheRuntime(t *testing.T) {
	_, err := policies.Flow.Execute(limited(t), serve(t), workflow.None{})
	var failed *workflow.StepError
	if !errors.As(err, &failed) || failed.Attempts != 1 {
		t.Errorf("Flow: %v; want a step that failed after one attempt", err)
	}
}

func TestSTEP5_SentinelsOfOtherPackagesMatchBehindAStep(t *testing.T) {
	client := serve(t)
	for what, want := range map[string]string{"row": "no rows", "quote": "quote", "gone": "gone", "nothing": "<nil>"} {
		if got, err := policies.Look.Execute(limited(t), client, what); got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", what, got, err, want)
		}
	}
}
