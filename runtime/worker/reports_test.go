package worker_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestOPS4_OnlyConfirmedCommitsAreReported proves that observers receive nothing of a commit that is
// in flight, and nothing of a commit that the store refuses.
func TestOPS4_OnlyConfirmedCommitsAreReported(t *testing.T) {
	mem := memstore.New()
	st := &mute{flowtest.Between{Store: mem}} // the refusal is the only notification of unread items
	r := &recorder{}
	var refused atomic.Bool
	st.Around = func(ctx context.Context, op string, req any, do func() error) error {
		commits, _ := req.([]store.Commit)
		if op != "commit" {
			return do()
		}
		for _, c := range commits {
			if len(c.Frame) == 0 {
				continue
			}
			frame, err := event.DecodeFrame(c.Frame)
			if err != nil {
				return err
			}
			for _, e := range r.events(c.Run) {
				if e.Seq >= frame.Events[0].Seq {
					t.Errorf("event %d (%s) was reported while its commit was in flight", e.Seq, e.Type)
				}
			}
			if c.Effect == store.EffectFinish && !refused.Swap(true) {
				body, err := event.AppendItem(nil, &event.Event{Type: event.MessageReceived, Name: "late", Payload: []byte("1")})
				if err == nil {
					_, err = mem.Deliver(ctx, store.Deliver{Run: c.Run, Item: store.Item{ID: "late", Body: body}})
				}
				if err != nil {
					return err
				}
			}
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	one := w.Work(worker.Config{Observers: []observe.Observer{r}}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	run := flowtest.Start(w, flowtest.AttackOnce, 2)
	if got := flowtest.Result(w, run); got != 4 {
		t.Errorf("result: got %d, want 4", got)
	}
	one.Stop()
	got := r.events(run.ID())
	for _, seen := range r.runs {
		got = slices.Concat(seen.Log, got)
	}
	if diff := cmp.Diff(w.Log(run), got, cmpopts.EquateEmpty()); diff != "" || !refused.Load() {
		t.Errorf("events of the log, and of the commits that were reported (-log +reported):\n%s", diff)
	}
}

// awaits is an observer whose report of the start of a step waits until the step is called.
type awaits struct {
	called chan struct{}
	once   sync.Once
	late   atomic.Bool // whether the step was not called in time
}

func (a *awaits) Run(observe.Run) observe.RunObserver { return a }

func (a *awaits) Committed(c observe.Commit) {
	if len(flowtest.Filter(c.Events, event.StepStarted)) == 0 {
		return
	}
	select {
	case <-a.called:
	case <-time.After(10 * time.Second):
		a.late.Store(true)
	}
}

func TestOPS4_TheStepsOfACommitStartBeforeItsReport(t *testing.T) {
	w := flowtest.NewMemory(t)
	a := &awaits{called: make(chan struct{})}
	w.Work(worker.Config{Observers: []observe.Observer{a}}, flowtest.As(watched, watchedCode), watchedStep.As(func(_ context.Context, n int) (int, error) {
		a.once.Do(func() { close(a.called) })
		return n, nil
	}))
	run := flowtest.Start(w, watched, 1)
	w.Send(run, 2)
	flowtest.Result(w, run)
	if a.late.Load() {
		t.Error("an observer has received the commit that starts a step before the step was called")
	}
}
