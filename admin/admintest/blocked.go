package admintest

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// changed is a workflow whose code changes while a run of it is in progress.
var changed = shim.NewWorkflow[string, string]("admintest.changed", "what", shim.WorkflowPolicy{})

// changing is the queue of the workers that run the workflow changed.
const changing = "changing"

// Blocked starts a run of the workflow named "changed". It changes the code while the run waits,
// and returns when the run is blocked.
func (s *Scene) Blocked(id string) string {
	s.Helper()
	verdict := func(ctx workflow.Context) (string, error) {
		got, err := verdicts.Receive(ctx)
		return string(got), err
	}
	stop := s.work(func(ctx workflow.Context, what string) (string, error) {
		if _, err := shim.Call[string](ctx, label, what); err != nil {
			return "", err
		}
		return verdict(ctx)
	})
	run, err := changed.Start(s.ctx(), s.Client, "old", workflow.WithID(id), workflow.WithQueue(changing))
	if err != nil {
		s.Fatal(err)
	}
	ref := string(run.ID())
	s.Until(ref, "waiting")
	stop()
	stop = s.work(func(ctx workflow.Context, what string) (string, error) {
		if _, err := shim.Call[string](ctx, label, "a new "+what); err != nil {
			return "", err
		}
		return verdict(ctx)
	})
	if err := verdicts.Send(s.ctx(), run.Handle, json.RawMessage(`"go on"`)); err != nil {
		s.Fatal(err)
	}
	for ctx := s.ctx(); ; {
		r, err := s.Direct.Run(ctx, ref)
		if err != nil {
			s.Fatal(err)
		}
		if r.Status == "blocked" && r.Blocked != "" {
			break
		}
	}
	stop()
	return ref
}

// work starts a worker with the given code for the workflow changed. It returns a function that
// stops the worker.
func (s *Scene) work(code func(workflow.Context, string) (string, error)) (stop func()) {
	w := worker.New(s.Client, worker.Config{Queues: []string{changing}})
	label.Bind(w, func(_ context.Context, what string) (string, error) { return "label of " + what, nil })
	shim.BindWorkflow(w, changed, code)
	ctx, end := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() {
		end()
		if err := <-done; err != nil {
			s.Error(err)
		}
	}
}

// saysWhatBlocks checks the description of a run that is blocked because its code was changed.
func saysWhatBlocks(s *Scene) {
	ref := s.Blocked("blocked-1")
	r, err := s.Service.Run(s.ctx(), ref)
	if err != nil || r.Status != "blocked" || r.Mismatch == nil {
		s.Fatalf("got %+v, %v, want a run that is blocked, and where", r, err)
	}
	m := r.Mismatch
	if m.Event == 0 || !strings.Contains(m.Recorded, "admintest.label") || !strings.Contains(m.Asked, "admintest.label") || !strings.Contains(m.Diff, "a new old") || !strings.Contains(m.Position, ".go:") || m.Here == "" {
		s.Errorf("got %+v, want the step with other arguments", m)
	}
	if !strings.Contains(r.Blocked, "a new old") {
		s.Errorf("why it is blocked: %s", r.Blocked)
	}
	seen, err := s.Direct.As(admin.Principal{Name: "eve", Role: admin.RoleViewer}).Run(s.ctx(), ref)
	if err != nil || seen.Mismatch == nil || seen.Mismatch.Diff != "" || strings.Contains(seen.Blocked, "a new old") || !strings.Contains(seen.Blocked, "continues by itself") {
		s.Errorf("a viewer sees %+v, %v: want where, and no payload", seen, err)
	}
	if r.Mismatch.Diff == "" {
		s.Error("what a viewer may not see is hidden from others")
	}
}
