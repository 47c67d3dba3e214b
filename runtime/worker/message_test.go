package worker_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	numbers  = workflow.NewTopic[int]("numbers")
	collects = flow[int, []int]("collects") // receives so many numbers
	collect  = as(collects, func(ctx workflow.Context, n int) ([]int, error) {
		var all []int
		for range n {
			v, err := numbers.Receive(ctx)
			if err != nil {
				return all, err
			}
			all = append(all, v)
		}
		return all, nil
	})
)

func TestFLOW5_MessagesAreKeptInOrderAlsoBeforeAnybodyWaits(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		run := start(w, collects, 60)
		var want []int
		send := func(n int) {
			want = append(want, n)
			if err := numbers.Send(w.ctx, run, n); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 30 {
			send(n) // nobody works on the run
		}
		first := w.work(worker.Config{Parked: 1}, collect)
		w.reach(run, event.MessageReceived, 30)
		for n := 30; n < 45; n++ {
			send(n)
		}
		first.stop()
		for n := 45; n < 50; n++ {
			send(n)
		}
		w.work(worker.Config{}, collect)
		for n := 50; n < 60; n++ {
			send(n)
		}
		if diff := cmp.Diff(want, result(w, run)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestFLOW5_AnIdempotencyKeyDeliversOnceWhoeverSends(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, collect)
		run := start(w, collects, 3)
		var senders sync.WaitGroup
		for range 20 {
			senders.Go(func() {
				if err := numbers.Send(w.ctx, run, 7, workflow.IdempotencyKey("click")); err != nil {
					t.Error(err)
				}
			})
		}
		senders.Wait()
		// Another topic, whose name and key look the same when put together.
		if err := workflow.NewTopic[int]("a:b").Send(w.ctx, run, 1, workflow.IdempotencyKey("c")); err != nil {
			t.Fatal(err)
		}
		if err := workflow.NewTopic[int]("a").Send(w.ctx, run, 1, workflow.IdempotencyKey("b:c")); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"click-2", "click-3"} {
			if err := numbers.Send(w.ctx, run, 8, workflow.IdempotencyKey(key)); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]int{7, 8, 8}, result(w, run)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if n := len(filter(w.log(run), event.MessageReceived)); n != 5 {
			t.Errorf("the log has %d messages, want 5", n)
		}
		// What was accepted stays accepted, also when the run has ended.
		if err := numbers.Send(w.ctx, run, 7, workflow.IdempotencyKey("click")); err != nil {
			t.Errorf("the same message after the end: %v", err)
		}
		if err := numbers.Send(w.ctx, run, 7, workflow.IdempotencyKey("new")); !errors.Is(err, workflow.ErrRunTerminal) {
			t.Errorf("a new message after the end: %v", err)
		}
	})
}

func TestFLOW5_ReceiveEndsAfterItsTimeout(t *testing.T) {
	impatient := flow[int, string]("impatient")
	w := newVirtual(t)
	w.work(worker.Config{}, as(impatient, func(ctx workflow.Context, _ int) (string, error) {
		begun := workflow.Now(ctx)
		_, err := wake.Receive(ctx, workflow.Timeout(24*time.Hour))
		if !errors.Is(err, workflow.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Errorf("got %v, context %v; want ErrTimeout and nil", err, ctx.Err())
		}
		if took := workflow.Now(ctx).Sub(begun); !exactly(took, 24*time.Hour) {
			t.Errorf("it took %v", took)
		}
		if _, err := wake.Receive(ctx, workflow.Timeout(0)); !errors.Is(err, workflow.ErrTimeout) {
			t.Errorf("without any time: %v", err)
		}
		if _, ok, err := wake.TryReceive(ctx); ok || err != nil {
			t.Errorf("TryReceive: %v, %v", ok, err)
		}
		return wake.Receive(ctx, workflow.Timeout(24*time.Hour))
	}))
	run := start(w, impatient, 1)
	w.reach(run, event.WaitCreated, 1)
	w.clock.Advance(24 * time.Hour)
	w.reach(run, event.WaitCreated, 2)
	w.clock.Advance(23 * time.Hour)
	if err := wake.Send(w.ctx, run, "in time"); err != nil {
		t.Fatal(err)
	}
	if got := result(w, run); got != "in time" {
		t.Errorf("got %q", got)
	}
}

func TestFLOW5_AMessageOfAnotherTypeIsAnErrorAndTheNextIsReceived(t *testing.T) {
	picky := flow[int, int]("picky")
	w := newMemory(t)
	w.work(worker.Config{}, as(picky, func(ctx workflow.Context, _ int) (int, error) {
		var payload *workflow.PayloadError
		if _, err := numbers.Receive(ctx); !errors.As(err, &payload) || !containsAll(err.Error(), "topic numbers") {
			t.Errorf("Receive: got %v, want a *PayloadError that names the topic", err)
		}
		c := numbers.Case()
		if won, err := workflow.Select(ctx, c); won != workflow.Case(c) || !errors.As(err, &payload) {
			t.Errorf("Select: got %v, %v", won, err)
		}
		return numbers.Receive(ctx)
	}))
	run := start(w, picky, 1)
	foreign := workflow.NewTopic[string]("numbers")
	for _, send := range []func() error{
		func() error { return foreign.Send(w.ctx, run, "one") },
		func() error { return foreign.Send(w.ctx, run, "two") },
		func() error { return numbers.Send(w.ctx, run, 3) },
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	if got := result(w, run); got != 3 {
		t.Errorf("got %d", got)
	}
}

// Whatever moment a message comes at: if it was accepted, the run has received
// it, or its last event says that it has not.
func TestFLOW5_NoAcceptedMessageIsLostWhenItRacesWithTheEnd(t *testing.T) {
	racing := flow[int, int]("racing")
	const interleavings = 2000
	w := newMemory(t)
	w.work(worker.Config{}, as(racing, func(ctx workflow.Context, n int) (int, error) {
		if n%3 == 0 {
			if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
				return 0, err
			}
		}
		got := 0
		for {
			_, ok, err := numbers.TryReceive(ctx)
			if !ok || err != nil {
				return got, err
			}
			got++
		}
	}))
	var racers sync.WaitGroup
	for n := range interleavings {
		run := start(w, racing, n)
		var accepted atomic.Int64
		var senders sync.WaitGroup
		for i := range 2 + n%3 {
			senders.Go(func() {
				switch err := numbers.Send(w.ctx, run, i); {
				case err == nil:
					accepted.Add(1)
				case !errors.Is(err, workflow.ErrRunTerminal):
					t.Error(err)
				}
			})
		}
		racers.Go(func() {
			senders.Wait()
			got := result(w, run)
			log := w.log(run)
			last := log[len(log)-1]
			if want := int(accepted.Load()); got+len(last.Unread) != want {
				t.Errorf("run %d: %d messages were accepted, %d received, %d are listed as unread", n, want, got, len(last.Unread))
			}
		})
		if n%50 == 0 {
			racers.Wait()
		}
	}
	racers.Wait()
}
