package admin_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	approval = workflow.NewHook[int]("approval")
	approve  = shim.NewStep("owners.approve", shim.Policy{Queue: "owners.people"}, shim.Handle[int, int])
	ordered  = shim.NewWorkflow[int, int]("owners.order", "n", shim.WorkflowPolicy{})
)

// TestOPS3_OwnersResumeHooksOfTheStepsOfTheirRuns proves that a principal that may read a run can
// list and resume the hooks of its steps on other queues, although the runs of such steps have no
// tags.
func TestOPS3_OwnersResumeHooksOfTheStepsOfTheirRuns(t *testing.T) {
	st := memstore.New()
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	w := worker.New(client, worker.Config{Queues: []string{"default", "owners.people"}})
	approve.Bind(w, func(ctx context.Context, n int) (int, error) {
		later, err := step.Later(ctx, approval)
		if err != nil {
			return 0, err
		}
		return later.Pending()
	})
	shim.BindWorkflow(w, ordered, func(ctx workflow.Context, n int) (int, error) { return shim.Call[int](ctx, approve, n) })
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := errors.Join(<-done, client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	direct := admin.New(client)
	as := func(owner string) *admin.Service {
		return direct.As(admin.Principal{Name: owner, Role: admin.RoleOperator, Owner: owner})
	}
	ada, bob := as("ada"), as("bob")
	started, err := ada.Start(t.Context(), admin.Start{Workflow: "owners.order", Input: admin.Payload(`{"n":7}`)})
	if err != nil {
		t.Fatal(err)
	}
	var open []admin.Hook
	for deadline := time.Now().Add(time.Minute); len(open) == 0; {
		page, err := ada.Hooks(t.Context(), admin.HookFilter{Run: started.Run})
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("no hook: %v", err)
		}
		open = page.Hooks
	}
	hook := open[0]
	if hook.Run == started.Run || hook.Token == "" {
		t.Fatalf("got %+v, want the hook of the run that executes the step", hook)
	}
	page, err := ada.Hooks(t.Context(), admin.HookFilter{})
	if err != nil || len(page.Hooks) != 1 || page.Hooks[0].Token != hook.Token {
		t.Errorf("all hooks: got %+v, %v", page, err)
	}
	if page, err = ada.Hooks(t.Context(), admin.HookFilter{Run: hook.Run}); err != nil || len(page.Hooks) != 1 {
		t.Errorf("hooks of the run that executes the step: got %+v, %v", page, err)
	}
	if tree, err := ada.Tree(t.Context(), started.Run); err != nil || len(tree.Runs) > 2 {
		t.Errorf("tree: got %+v, %v", tree, err)
	}
	for what, err := range map[string]error{
		"run": second(bob.Run(t.Context(), hook.Run)), "events": second(bob.Events(t.Context(), hook.Run, 1, 0)), "hook": second(bob.Hook(t.Context(), hook.Token)),
		"resume": second(bob.ResumeHook(t.Context(), hook.Token, admin.Message{Payload: admin.Payload("1")})),
	} {
		if p := admin.ProblemOf(err); p == nil || p.Code != admin.CodeNotFound {
			t.Errorf("%s by another owner: got %v, want that it is not found", what, err)
		}
	}
	for what, err := range map[string]error{
		"run": second(ada.Run(t.Context(), hook.Run)), "events": second(ada.Events(t.Context(), hook.Run, 1, 0)), "hook": second(ada.Hook(t.Context(), hook.Token)),
		"resume": second(ada.ResumeHook(t.Context(), hook.Token, admin.Message{Payload: admin.Payload("8")})),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	got, err := ada.Wait(t.Context(), started.Run, time.Minute)
	if err != nil || string(got.Result) != "8" {
		t.Errorf("got %+v, %v; want the payload as the result", got, err)
	}
}
