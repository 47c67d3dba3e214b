package worker_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// overcounting is a store whose heartbeats report one owned run too many, which makes the worker
// reconcile its runs.
type overcounting struct{ *flowtest.Between }

func (s overcounting) Heartbeat(ctx context.Context, partition int, id store.SessionID) (store.Heartbeat, error) {
	answer, err := s.Between.Heartbeat(ctx, partition, id)
	answer.Owned++
	return answer, err
}

// TestReconcile_ARunThatEndsBeforeTheAnswerIsNotGivenBack proves that a late answer to a reconcile
// request does not cause a release. The answer names a run that has ended meanwhile. The worker
// must not treat it as a run whose claim was unanswered.
func TestReconcile_ARunThatEndsBeforeTheAnswerIsNotGivenBack(t *testing.T) {
	w := flowtest.NewWorld(t, memstore.New(), workflow.ClientConfig{})
	began, listed, ended, again := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
	var first, second sync.Once
	st := &flowtest.Between{Store: w.Store}
	st.Around = func(_ context.Context, op string, _ any, do func() error) error {
		if op != "reconcile" {
			return do()
		}
		<-began
		err := do()
		late := false
		first.Do(func() { late = true })
		if !late {
			second.Do(func() { close(again) }) // the worker has handled the first answer
			return err
		}
		close(listed)
		<-ended
		return err
	}
	run := flowtest.Start(w, flowtest.AttackOnce, 4)
	w.WorkOn(overcounting{st}, worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Minute},
		flowtest.AttackStep.As(func(_ context.Context, n int) (int, error) {
			close(began)
			<-listed
			return 2 * n, nil
		}), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	if got := flowtest.Result(w, run); got != 8 {
		t.Errorf("result: got %d, want 8", got)
	}
	for st.Count("commit") < 2 && w.Ctx.Err() == nil { // until the worker has the answer to the last commit
		w.Healthy()
	}
	close(ended)
	select {
	case <-again:
	case <-w.Ctx.Done():
		t.Fatal(w.Ctx.Err())
	}
	if n := st.Count("release"); n != 0 {
		t.Errorf("%d runs were given back, want none", n)
	}
}

// TestReconcile_ARunThatIsCreatedBeforeTheAnswerIsKept proves that a worker keeps a run that was
// created as owned after the reconcile request was sent. The late answer does not name the run, but
// no other worker has claimed it.
func TestReconcile_ARunThatIsCreatedBeforeTheAnswerIsKept(t *testing.T) {
	began, listed, again := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var first, second sync.Once
	st := &flowtest.Between{Store: memstore.New()}
	st.Around = func(_ context.Context, op string, _ any, do func() error) error {
		if op != "reconcile" {
			return do()
		}
		err := do()
		late := false
		first.Do(func() { late = true })
		if !late {
			second.Do(func() { close(again) }) // the worker has handled the first answer
			return err
		}
		close(listed)
		<-began
		return err
	}
	w := flowtest.NewWorld(t, overcounting{st}, workflow.ClientConfig{})
	w.Near = true
	w.Work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Minute},
		flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
			close(began)
			select {
			case <-again:
			case <-ctx.Done():
				t.Error("the step was stopped")
			}
			return 2 * n, nil
		}), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	<-listed
	run := flowtest.Start(w, flowtest.AttackOnce, 4)
	if got := flowtest.Result(w, run); got != 8 {
		t.Errorf("result: got %d, want 8", got)
	}
	if n := len(w.FirstFrame(run)); n < 2 {
		t.Errorf("the first frame has %d events: it was not handed over, the test proves nothing", n)
	}
	if n := st.Count("release"); n != 0 {
		t.Errorf("%d runs were given back, want none", n)
	}
}
