package worker_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestREC1_AnItemThatIsSentAgainWhileTheInboxIsReadInterruptsNoStep proves that a worker applies an
// item which was consumed, forgotten by the store and sent again between the beginning of a read of
// the inbox and its execution. A worker that took it for the consumed one would consume the item after
// it in its place. The store would refuse the commit, and the worker would drop the run with the step
// that it executes.
func TestREC1_AnItemThatIsSentAgainWhileTheInboxIsReadInterruptsNoStep(t *testing.T) {
	clock := storetest.NewClock()
	st := memstore.NewWith(memstore.Config{Clock: clock})
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Clock = clock
	commits, reads := newPass(), newPass()
	slow := &flowtest.Between{Store: st, Around: func(ctx context.Context, op string, req any, do func() error) error {
		switch req := req.(type) {
		case []store.Commit:
			if req[0].ConsumeLast == "release" {
				commits.wait(ctx)
			}
		case []store.Load:
			if req[0].Limit < 0 {
				reads.wait(ctx)
			}
		}
		return do()
	}}

	var executed atomic.Int32
	began, end := make(chan struct{}, 10), make(chan struct{})
	one := flowtest.AStep[string, string]("sentagain.one", shim.Policy{Retry: flowtest.Quick, Timeout: 1000 * time.Hour})
	flow, topic := flowtest.Flow[string, string]("sentagain"), workflow.NewTopic[string]("sentagain.topic")
	w.WorkOn(slow, worker.Config{},
		one.As(func(ctx context.Context, in string) (string, error) {
			executed.Add(1)
			began <- struct{}{}
			select {
			case <-end:
			case <-ctx.Done():
			}
			return in, context.Cause(ctx)
		}),
		flowtest.As(flow, func(ctx workflow.Context, in string) (string, error) {
			all, err := one.Call(ctx, in)
			for range 3 {
				var text string
				if err == nil {
					text, err = topic.Receive(ctx)
				}
				all += text
			}
			return all, err
		}))

	run := flowtest.Start(w, flow, "", workflow.WithHoldFor(1000*time.Hour))
	w.Status(run, workflow.StatusHeld)
	flowtest.Order(t, run.Release(w.Ctx))
	w.Await("the commit that consumes the release", commits.arrived)
	flowtest.Order(t, topic.Send(w.Ctx, run, "a"))
	w.Await("the read that begins before this commit", reads.arrived)
	close(commits.open)
	w.Await("the step", began)
	clock.Advance(25 * time.Hour)
	flowtest.Order(t, topic.Send(w.Ctx, run, "b")) // the store forgets the release
	flowtest.Order(t, run.Release(w.Ctx))
	flowtest.Order(t, topic.Send(w.Ctx, run, "c"))
	close(reads.open)
	w.Reach(run, event.MessageReceived, 3)
	close(end)
	if got := flowtest.Result(w, run); got != "abc" {
		t.Errorf("the run has received %q, want abc", got)
	}
	if n := executed.Load(); n != 1 {
		t.Errorf("the step was executed %d times, want once", n)
	}
	if lines := w.Lines("lost a race for a run: reading it again"); len(lines) > 0 {
		t.Errorf("the worker has lost its run: %q", lines)
	}
}

// pass holds up the first call of wait until open is closed.
type pass struct {
	first         sync.Once
	arrived, open chan struct{}
}

func newPass() *pass { return &pass{arrived: make(chan struct{}), open: make(chan struct{})} }

func (p *pass) wait(ctx context.Context) {
	p.first.Do(func() {
		close(p.arrived)
		select {
		case <-p.open:
		case <-ctx.Done():
		}
	})
}
