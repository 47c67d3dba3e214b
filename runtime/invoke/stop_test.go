package invoke_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestOPS7_AStoppingProcessDoesNotWaitForASlowStore proves that an invocation answers within 8 s after
// Stop was closed, whichever request to the store takes long. A platform kills the process after 10 s.
// The run is given back or recovered, and another process executes it.
func TestOPS7_AStoppingProcessDoesNotWaitForASlowStore(t *testing.T) {
	for name, c := range map[string]struct {
		op   string
		skip int // calls before the slow one
	}{
		"the log is read before the claim": {op: "load"},
		"the log is read after the claim":  {op: "load", skip: 1},
		"the session is opened":            {op: "open"},
		"the run is claimed":               {op: "claimrun"},
		"a step is committed":              {op: "commit"},
		"the session is closed":            {op: "close"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := flowtest.NewVirtual(t)
			slow, calls := make(chan struct{}), 0
			st := &flowtest.Between{Store: w.Store, Around: func(ctx context.Context, op string, _ any, do func() error) error {
				if op != c.op {
					return do()
				}
				if calls++; calls != c.skip+1 {
					return do()
				}
				close(slow)
				select { // The answer does not arrive, and the request has no effect.
				case <-ctx.Done():
				case <-t.Context().Done():
				}
				return context.Canceled
			}}
			stop := make(chan struct{})
			h, err := invoke.Handler(workflow.NewClient(st, workflow.ClientConfig{}), registers(five, add), invoke.Config{Secrets: [][]byte{secret}, Stop: stop})
			flowtest.Order(t, err)
			run := flowtest.Start(w, fives, 1)
			if c.skip > 0 { // The inbox has an item, so the log is read again under the claim.
				flowtest.Order(t, run.Pause(w.Ctx))
				flowtest.Order(t, run.Resume(w.Ctx))
			}
			answers := make(chan answer, 1)
			r := request(t, run.ID())
			go func() { answers <- send(t, h, r) }()
			w.Await("the slow request", slow)
			close(stop)
			began, answered := w.Clock.Now(), false
			for !answered {
				select {
				case <-answers:
					answered = true
				case <-time.After(2 * time.Millisecond):
					w.Clock.Advance(50 * time.Millisecond)
				case <-w.Ctx.Done():
					t.Fatal("the invocation does not answer")
				}
			}
			if took := w.Clock.Now().Sub(began); took > 8*time.Second {
				t.Errorf("the invocation answered %v after the stop, want at most 8 s", took)
			}
			w.CloseSessions() // as if the lease had expired
			other := handler(w, invoke.Config{}, five, add)
			w.Eventually("another process executes the run", func() bool {
				a := ask(t, other, run.ID())
				return a.Status == invoke.StatusDone || a.code() == invoke.CodeEnded
			})
			w.Healthy()
		})
	}
}

// TestOPS7_ADispatcherThatStopsHandsItsWakeOn proves that a dispatcher which stops when it has been
// notified of a ready run leaves the notification to others. Otherwise they would find the run with
// their next claim without a notification, seconds later.
func TestOPS7_ADispatcherThatStopsHandsItsWakeOn(t *testing.T) {
	w := flowtest.NewMemory(t)
	ctx, cancel := context.WithCancel(w.Ctx)
	defer cancel()
	var started atomic.Bool
	st := &flowtest.Between{Store: w.Store, Around: func(_ context.Context, op string, _ any, do func() error) error {
		err := do()
		if op == "wait" && started.Load() {
			cancel()
		}
		return err
	}}
	d, err := invoke.NewDispatcher(workflow.NewClient(st, workflow.ClientConfig{}), invoke.DispatcherConfig{
		Targets: []invoke.Target{{URL: function(w, invoke.Config{}, five, add).URL, Secret: secret}},
	})
	flowtest.Order(t, err)
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx) }()
	flowtest.Result(w, flowtest.Start(w, fives, 1))
	w.Eventually("the dispatcher waits", func() bool { return w.Store.(*memstore.Store).Settled() == 1 })
	started.Store(true)
	flowtest.Start(w, fives, 1)
	flowtest.Order(t, <-done)
	w.Healthy()
}
