//go:build !inmemory

package worker_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestFLOW7_WhoReadsValuesWaitsForAnOutageToEnd(t *testing.T) {
	plain := flowtest.NewMemory(t)
	plain.Work(worker.Config{}, flowtest.Climb)
	run := flowtest.Start(plain, flowtest.Climbs, 3, workflow.WithID("climber"))
	st := &flowtest.Absent{Flaky: flowtest.Flaky{Store: plain.Store}}
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	of := client.RunByID("climber")
	for i := range 3 {
		plain.Send(run, 1)
		plain.Reach(run, event.ValueSet, 1+i)
		for range 2 {
			if v, err := flowtest.Level.Wait(plain.Ctx, of); v != i+1 || err != nil {
				t.Errorf("Wait: got %d, %v, want %d", v, err, i+1)
			}
			if v, ok, err := flowtest.Level.Get(plain.Ctx, of); v != i+1 || !ok || err != nil {
				t.Errorf("Get: got %d, %t, %v, want %d", v, ok, err, i+1)
			}
		}
	}
	var seen []int
	for v, err := range flowtest.Level.Watch(plain.Ctx, of) {
		if err != nil {
			t.Error(err)
		}
		seen = append(seen, v)
	}
	if diff := cmp.Diff([]int{3}, seen); diff != "" {
		t.Errorf("Watch (-want +got):\n%s", diff)
	}
	if st.Losses.Load() < 10 {
		t.Errorf("only %d answers were lost", st.Losses.Load())
	}
}

func TestFLOW16_WhoAsksWaitsForAnOutageToEndAndAsksOnce(t *testing.T) {
	plain := flowtest.NewMemory(t)
	plain.Work(worker.Config{}, flowtest.Account, flowtest.Slowly)
	run := flowtest.Start(plain, flowtest.Accounts, 0, workflow.WithID("account"))
	st := &flowtest.Absent{Flaky: flowtest.Flaky{Store: plain.Store}}
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	for i := range 6 {
		if v, err := flowtest.Add.Ask(plain.Ctx, client.RunByID("account"), 1); v != i+1 || err != nil {
			t.Errorf("got %d, %v, want %d", v, err, i+1)
		}
	}
	plain.Send(run, 1)
	if got := flowtest.Result(plain, run); got != 6 {
		t.Errorf("the sum is %d, want 6", got)
	}
}

func TestFLOW6_WhoResumesWaitsForAnOutageToEndAndDeliversOnce(t *testing.T) {
	for i := range 8 { // each iteration loses a different answer first
		plain := flowtest.NewMemory(t)
		plain.Work(worker.Config{}, flowtest.Hold)
		run := flowtest.Start(plain, flowtest.Holds, "order-7")
		plain.Opened(run)
		st := &flowtest.Absent{Flaky: flowtest.Flaky{Store: plain.Store}}
		st.Calls.Store(int64(i))
		client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
		if err := flowtest.Paid.Send(plain.Ctx, client, "order-7", 5); err != nil {
			t.Error(err)
		}
		if got := flowtest.Result(plain, run); got != 5 {
			t.Errorf("got %d", got)
		}
		log := plain.Log(run)
		if n := len(flowtest.Filter(log, event.HookReceived)) + len(log[len(log)-1].Unread); n != 1 {
			t.Errorf("the run was given %d payloads, want 1", n)
		}
	}
}

// TestFLOW16_AskAndWatchReconnectWhenTheServerIsBack proves that calls in progress continue after
// the server was killed and restarted: a wait for a value, a watch of the value, and an ask.
func TestFLOW16_AskAndWatchReconnectWhenTheServerIsBack(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	st, err := redisstore.Open(server.URL())
	flowtest.Order(t, err)
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.TakesLong()
	w.Work(worker.Config{}, flowtest.Account, flowtest.Slowly, flowtest.Climb)
	climber, asked := flowtest.Start(w, flowtest.Climbs, 1), flowtest.Start(w, flowtest.Accounts, 1)
	w.Reach(asked, event.WaitCreated, 1)
	w.Reach(climber, event.WaitCreated, 1)
	errs := make(chan error, 3)
	go func() {
		_, err := flowtest.Level.Wait(w.Ctx, climber)
		errs <- err
	}()
	go func() {
		var last error
		for _, err := range flowtest.Level.Watch(w.Ctx, climber) {
			last = err
		}
		errs <- last
	}()
	server.Kill()
	go func() {
		v, err := flowtest.Add.Ask(w.Ctx, asked, 2)
		if v != 3 {
			t.Errorf("the answer is %d, want 3", v)
		}
		errs <- err
	}()
	server.Restart(t)
	w.Eventually("a message is accepted", func() bool {
		return flowtest.Numbers.Send(w.Ctx, climber, 1, workflow.IdempotencyKey("one")) == nil
	})
	for range 3 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// withholding is a store whose first read reports two answers more than the stream contains, as if
// a failover had lost them later.
type withholding struct {
	store.Store
	reads atomic.Int64
}

func (s *withholding) Unwrap() store.Store { return s.Store }

func (s *withholding) ReadStream(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
	page, err := s.Store.ReadStream(ctx, r)
	if s.reads.Add(1) == 1 {
		page.Last += 2 // the lost answers had these two positions
	}
	return page, err
}

// TestFLOW16_AnAnswerIsFoundAlthoughTheStoreHasLostThoseBefore proves that a caller receives its
// answer although a failover has lost earlier answers. The new answer then has a position that a
// lost answer had before.
func TestFLOW16_AnAnswerIsFoundAlthoughTheStoreHasLostThoseBefore(t *testing.T) {
	plain := flowtest.NewMemory(t)
	plain.Work(worker.Config{}, flowtest.Account, flowtest.Slowly)
	run := flowtest.Start(plain, flowtest.Accounts, 0)
	st := &withholding{Store: plain.Store}
	client := workflow.NewClient(st, workflow.ClientConfig{})
	ctx, cancel := context.WithTimeout(plain.Ctx, 3*time.Second)
	defer cancel()
	if v, err := flowtest.Add.Ask(ctx, client.Run(run.ID()), 1); v != 1 || err != nil {
		t.Errorf("got %d, %v, want 1", v, err)
	}
	if n := st.reads.Load(); n > 20 {
		t.Errorf("the stream was read %d times", n)
	}
}

func TestFLOW8_AStreamThatCannotBeIsAnErrorAtOnce(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		run := flowtest.Start(w, flowtest.Streams, 1)
		for _, name := range []string{"", strings.Repeat("x", store.MaxStreamName)} {
			ctx, cancel := context.WithTimeout(w.Ctx, time.Second)
			n := 0
			for _, err := range w.Client.Run(run.ID()).ReadStream(ctx, name) {
				n++
				if err == nil || ctx.Err() != nil {
					t.Errorf("a name of %d bytes: got %v", len(name), err)
				}
			}
			if n != 1 {
				t.Errorf("a name of %d bytes: got %d pairs, want an error", len(name), n)
			}
			cancel()
		}
	})
}
