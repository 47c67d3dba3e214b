package worker_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// refusing is a store that answers the first commits with a frame by an error and does not execute
// them.
type refusing struct {
	store.Store
	left atomic.Int64
	err  error
}

func (s *refusing) Unwrap() store.Store { return s.Store }

func (s *refusing) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	if len(commits) == 1 && commits[0].Frame != nil && s.left.Add(-1) >= 0 {
		return []store.Committed{{Err: s.err}}, nil
	}
	return s.Store.Commit(ctx, commits)
}

// TestREC1_RefusedCommitsLoseNeitherTheRunNorTheSlots proves that a worker drops a run whose commit
// was refused without losing the slots of its steps. The worker finds the run again when it
// reconciles its runs.
func TestREC1_RefusedCommitsLoseNeitherTheRunNorTheSlots(t *testing.T) {
	for name, refusal := range map[string]error{
		"fenced":   store.ErrFenced,
		"conflict": &store.ConflictError{Reason: "made up"},
		"other":    &store.WorkflowIDMismatchError{},
	} {
		t.Run(name, func(t *testing.T) {
			one := shim.NewStep("lost.one", shim.Policy{}, func(f func(context.Context) error) shim.Handler {
				return shim.HandleErr(func(ctx context.Context, _ struct{}) error { return f(ctx) })
			})
			flow := shim.NewWorkflow[workflow.None, workflow.None]("lost.flow", "", shim.WorkflowPolicy{})
			st := &refusing{Store: memstore.New(), err: refusal}
			st.left.Store(3)
			w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
			wk := worker.New(w.Client, worker.Config{Concurrency: 1, Heartbeat: 20 * time.Millisecond, ClaimExpiry: time.Minute})
			one.Bind(wk, func(context.Context) error { return nil })
			shim.BindWorkflow(wk, flow, func(ctx workflow.Context, _ workflow.None) (workflow.None, error) {
				for range 5 {
					if err := shim.CallErr(ctx, one, struct{}{}); err != nil {
						return workflow.None{}, err
					}
				}
				return workflow.None{}, nil
			})
			ctx, stop := context.WithCancel(w.Ctx)
			worked := make(chan error, 1)
			go func() { worked <- wk.Run(ctx) }()
			if _, err := flow.Execute(w.Ctx, w.Client, workflow.None{}); err != nil {
				t.Errorf("the run was lost: %v", err)
			}
			if left := st.left.Load(); left >= 0 {
				t.Errorf("%d refusals are left: the test proves nothing", left+1)
			}
			stop()
			if err := <-worked; err != nil {
				t.Error(err)
			}
		})
	}
}
