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
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// absent is a flaky store that loses every other answer of what clients ask, too.
type absent struct{ flaky }

func (s *absent) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	run, err := s.Store.Deliver(ctx, d)
	return run, s.lose(err)
}

func (s *absent) Resolve(ctx context.Context, workflowID string) (event.RunID, error) {
	run, err := s.Store.Resolve(ctx, workflowID)
	return run, s.lose(err)
}

func (s *absent) Load(ctx context.Context, loads []store.Load) ([]store.Loaded, error) {
	loaded, err := s.Store.Load(ctx, loads)
	return loaded, s.lose(err)
}

func TestFLOW7_WhoReadsValuesWaitsForAnOutageToEnd(t *testing.T) {
	plain := newMemory(t)
	plain.work(worker.Config{}, climb)
	run := start(plain, climbs, 3, workflow.WithID("climber"))
	st := &absent{flaky{Store: plain.store}}
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	of := client.RunByID("climber")
	for i := range 3 {
		plain.send(run, 1)
		plain.reach(run, event.ValueSet, 1+i)
		for range 2 {
			if v, err := level.Wait(plain.ctx, of); v != i+1 || err != nil {
				t.Errorf("Wait: got %d, %v, want %d", v, err, i+1)
			}
			if v, ok, err := level.Get(plain.ctx, of); v != i+1 || !ok || err != nil {
				t.Errorf("Get: got %d, %t, %v, want %d", v, ok, err, i+1)
			}
		}
	}
	var seen []int
	for v, err := range level.Watch(plain.ctx, of) {
		if err != nil {
			t.Error(err)
		}
		seen = append(seen, v)
	}
	if diff := cmp.Diff([]int{3}, seen); diff != "" {
		t.Errorf("Watch (-want +got):\n%s", diff)
	}
	if st.losses.Load() < 10 {
		t.Errorf("only %d answers were lost", st.losses.Load())
	}
}

func TestFLOW16_WhoAsksWaitsForAnOutageToEndAndAsksOnce(t *testing.T) {
	plain := newMemory(t)
	plain.work(worker.Config{}, account, slowly)
	run := start(plain, accounts, 0, workflow.WithID("account"))
	st := &absent{flaky{Store: plain.store}}
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	for i := range 6 {
		if v, err := add.Ask(plain.ctx, client.RunByID("account"), 1); v != i+1 || err != nil {
			t.Errorf("got %d, %v, want %d", v, err, i+1)
		}
	}
	plain.send(run, 1)
	if got := result(plain, run); got != 6 {
		t.Errorf("the sum is %d, want 6", got)
	}
}

func TestFLOW6_WhoResumesWaitsForAnOutageToEndAndDeliversOnce(t *testing.T) {
	for i := range 8 { // another answer is lost first each time
		plain := newMemory(t)
		plain.work(worker.Config{}, hold)
		run := start(plain, holds, "order-7")
		plain.opened(run)
		st := &absent{flaky{Store: plain.store}}
		st.calls.Store(int64(i))
		client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
		if err := paid.Send(plain.ctx, client, "order-7", 5); err != nil {
			t.Error(err)
		}
		if got := result(plain, run); got != 5 {
			t.Errorf("got %d", got)
		}
		log := plain.log(run)
		if n := len(filter(log, event.HookReceived)) + len(log[len(log)-1].Unread); n != 1 {
			t.Errorf("the run was given %d payloads, want 1", n)
		}
	}
}

// A server that is killed and restarted while somebody waits for a value, a reader
// watches it, and a question is asked.
func TestFLOW16_AskAndWatchReconnectWhenTheServerIsBack(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	st, err := redisstore.Open(server.URL())
	order(t, err)
	w := newWorld(t, st, workflow.ClientConfig{})
	w.takesLong()
	w.work(worker.Config{}, account, slowly, climb)
	climber, asked := start(w, climbs, 1), start(w, accounts, 1)
	w.reach(asked, event.WaitCreated, 1)
	w.reach(climber, event.WaitCreated, 1)
	errs := make(chan error, 3)
	go func() {
		_, err := level.Wait(w.ctx, climber)
		errs <- err
	}()
	go func() {
		var last error
		for _, err := range level.Watch(w.ctx, climber) {
			last = err
		}
		errs <- last
	}()
	server.Kill()
	go func() {
		v, err := add.Ask(w.ctx, asked, 2)
		if v != 3 {
			t.Errorf("the answer is %d, want 3", v)
		}
		errs <- err
	}()
	server.Restart(t)
	w.eventually("a message is accepted", func() bool {
		return numbers.Send(w.ctx, climber, 1, workflow.IdempotencyKey("one")) == nil
	})
	for range 3 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// withholding has lost the answers of a run, once they were looked at.
type withholding struct {
	store.Store
	reads atomic.Int64
}

func (s *withholding) Unwrap() store.Store { return s.Store }

func (s *withholding) ReadStream(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
	page, err := s.Store.ReadStream(ctx, r)
	if s.reads.Add(1) == 1 {
		page.Last += 2 // what will be lost was there
	}
	return page, err
}

// After a failover that has lost writes the next answers have numbers that others had
// before.
func TestFLOW16_AnAnswerIsFoundAlthoughTheStoreHasLostThoseBefore(t *testing.T) {
	plain := newMemory(t)
	plain.work(worker.Config{}, account, slowly)
	run := start(plain, accounts, 0)
	st := &withholding{Store: plain.store}
	client := workflow.NewClient(st, workflow.ClientConfig{})
	ctx, cancel := context.WithTimeout(plain.ctx, 3*time.Second)
	defer cancel()
	if v, err := add.Ask(ctx, client.Run(run.ID()), 1); v != 1 || err != nil {
		t.Errorf("got %d, %v, want 1", v, err)
	}
	if n := st.reads.Load(); n > 20 {
		t.Errorf("the stream was read %d times", n)
	}
}

func TestFLOW8_AStreamThatCannotBeIsAnErrorAtOnce(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		run := start(w, streams, 1)
		for _, name := range []string{"", strings.Repeat("x", store.MaxStreamName)} {
			ctx, cancel := context.WithTimeout(w.ctx, time.Second)
			n := 0
			for _, err := range w.client.Run(run.ID()).ReadStream(ctx, name) {
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
