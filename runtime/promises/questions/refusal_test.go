package questions_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// telltale is a store that counts the refusals in commits. early is the number of refusals in
// commits that do not consume their question.
type telltale struct {
	store.Store
	mu          sync.Mutex
	told, early int
	commits     int
}

func (s *telltale) Unwrap() store.Store { return s.Store }

func (s *telltale) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	s.mu.Lock()
	for i := range commits {
		s.commits++
		for _, p := range commits[i].Publish {
			if a, err := effects.DecodeAnswer(p.Body); err == nil && a.Refused {
				s.told++
				if commits[i].Consume == 0 {
					s.early++
				}
			}
		}
	}
	s.mu.Unlock()
	return s.Store.Commit(ctx, commits)
}

// TestFLOW16_ARefusalIsToldTogetherWithTheEndOfTheQuestion proves that a refusal is published by
// the commit that consumes the question. If it were published earlier and the worker died, the next
// worker could accept the question although the caller has received a refusal.
func TestFLOW16_ARefusalIsToldTogetherWithTheEndOfTheQuestion(t *testing.T) {
	st := &telltale{Store: memstore.New()}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	busy := flowtest.As(flowtest.Accounts, func(ctx workflow.Context, n int) (int, error) {
		flowtest.Add.Handle(ctx, func(int) error { return errors.New("never") }, func(workflow.Context, int) (int, error) { return 0, nil })
		if _, err := flowtest.Numbers.Receive(ctx); err != nil {
			return 0, err
		}
		for i := range n {
			flowtest.Tokens.Write(ctx, i)
		}
		return flowtest.Numbers.Receive(ctx)
	})
	run := flowtest.Start(w, flowtest.Accounts, 3000) // more writes than one commit takes
	first := w.Work(worker.Config{}, busy)
	w.Reach(run, event.WaitCreated, 1)
	first.Stop()
	w.Send(run, 1)
	asked := make(chan error, 1)
	go func() {
		_, err := flowtest.Add.Ask(w.Ctx, run, 1)
		asked <- err
	}()
	w.Eventually("it is asked", func() bool { return w.Inbox(run) == 2 })
	w.Work(worker.Config{}, busy)
	if err := <-asked; !errors.As(err, new(*workflow.RefusedError)) {
		t.Errorf("got %v, want a *RefusedError", err)
	}
	w.Send(run, 2)
	_ = flowtest.Result(w, run)
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.told != 1 || st.early != 0 || st.commits < 3 {
		t.Errorf("%d refusals in %d commits, %d of them before the question was taken; want 1 and 0", st.told, st.commits, st.early)
	}
}
