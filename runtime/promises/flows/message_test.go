package flows_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestFLOW5_MessagesAreKeptInOrderAlsoBeforeAnybodyWaits(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		run := flowtest.Start(w, flowtest.Collects, 60)
		var want []int
		send := func(n int) {
			want = append(want, n)
			if err := flowtest.Numbers.Send(w.Ctx, run, n); err != nil {
				t.Fatal(err)
			}
		}
		for n := range 30 {
			send(n) // sent before a worker serves the run
		}
		first := w.Work(worker.Config{Parked: 1}, flowtest.Collect)
		w.Reach(run, event.MessageReceived, 30)
		for n := 30; n < 45; n++ {
			send(n)
		}
		first.Stop()
		for n := 45; n < 50; n++ {
			send(n)
		}
		w.Work(worker.Config{}, flowtest.Collect)
		for n := 50; n < 60; n++ {
			send(n)
		}
		if diff := cmp.Diff(want, flowtest.Result(w, run)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestFLOW5_AnIdempotencyKeyDeliversOnceWhoeverSends(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Collect)
		run := flowtest.Start(w, flowtest.Collects, 3)
		var senders sync.WaitGroup
		for range 20 {
			senders.Go(func() {
				if err := flowtest.Numbers.Send(w.Ctx, run, 7, workflow.IdempotencyKey("click")); err != nil {
					t.Error(err)
				}
			})
		}
		senders.Wait()
		// These two topics and keys must not be confused, although their concatenations are equal.
		if err := workflow.NewTopic[int]("a:b").Send(w.Ctx, run, 1, workflow.IdempotencyKey("c")); err != nil {
			t.Fatal(err)
		}
		if err := workflow.NewTopic[int]("a").Send(w.Ctx, run, 1, workflow.IdempotencyKey("b:c")); err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{"click-2", "click-3"} {
			if err := flowtest.Numbers.Send(w.Ctx, run, 8, workflow.IdempotencyKey(key)); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]int{7, 8, 8}, flowtest.Result(w, run)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if n := len(flowtest.Filter(w.Log(run), event.MessageReceived)); n != 5 {
			t.Errorf("the log has %d messages, want 5", n)
		}
		// A repeated message is accepted after the end of the run, because the run has accepted it
		// before.
		if err := flowtest.Numbers.Send(w.Ctx, run, 7, workflow.IdempotencyKey("click")); err != nil {
			t.Errorf("the same message after the end: %v", err)
		}
		if err := flowtest.Numbers.Send(w.Ctx, run, 7, workflow.IdempotencyKey("new")); !errors.Is(err, workflow.ErrRunTerminal) {
			t.Errorf("a new message after the end: %v", err)
		}
	})
}

func TestFLOW5_ReceiveEndsAfterItsTimeout(t *testing.T) {
	impatient := flowtest.Flow[int, string]("impatient")
	w := flowtest.NewVirtual(t)
	w.Work(worker.Config{}, flowtest.As(impatient, func(ctx workflow.Context, _ int) (string, error) {
		begun := workflow.Now(ctx)
		_, err := flowtest.Wake.Receive(ctx, workflow.Timeout(24*time.Hour))
		if !errors.Is(err, workflow.ErrTimeout) || !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Errorf("got %v, context %v; want ErrTimeout and nil", err, ctx.Err())
		}
		if took := workflow.Now(ctx).Sub(begun); !flowtest.Exactly(took, 24*time.Hour) {
			t.Errorf("it took %v", took)
		}
		if _, err := flowtest.Wake.Receive(ctx, workflow.Timeout(0)); !errors.Is(err, workflow.ErrTimeout) {
			t.Errorf("without any time: %v", err)
		}
		if _, ok, err := flowtest.Wake.TryReceive(ctx); ok || err != nil {
			t.Errorf("TryReceive: %v, %v", ok, err)
		}
		return flowtest.Wake.Receive(ctx, workflow.Timeout(24*time.Hour))
	}))
	run := flowtest.Start(w, impatient, 1)
	w.Reach(run, event.WaitCreated, 1)
	w.Clock.Advance(24 * time.Hour)
	w.Reach(run, event.WaitCreated, 2)
	w.Clock.Advance(23 * time.Hour)
	if err := flowtest.Wake.Send(w.Ctx, run, "in time"); err != nil {
		t.Fatal(err)
	}
	if got := flowtest.Result(w, run); got != "in time" {
		t.Errorf("got %q", got)
	}
}

func TestFLOW5_AMessageOfAnotherTypeIsAnErrorAndTheNextIsReceived(t *testing.T) {
	picky := flowtest.Flow[int, int]("picky")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(picky, func(ctx workflow.Context, _ int) (int, error) {
		var payload *workflow.PayloadError
		if _, err := flowtest.Numbers.Receive(ctx); !errors.As(err, &payload) || !flowtest.ContainsAll(err.Error(), "topic numbers") {
			t.Errorf("Receive: got %v, want a *PayloadError that names the topic", err)
		}
		c := flowtest.Numbers.Case()
		if won, err := workflow.Select(ctx, c); won != workflow.Case(c) || !errors.As(err, &payload) {
			t.Errorf("Select: got %v, %v", won, err)
		}
		return flowtest.Numbers.Receive(ctx)
	}))
	run := flowtest.Start(w, picky, 1)
	foreign := workflow.NewTopic[string]("numbers")
	for _, send := range []func() error{
		func() error { return foreign.Send(w.Ctx, run, "one") },
		func() error { return foreign.Send(w.Ctx, run, "two") },
		func() error { return flowtest.Numbers.Send(w.Ctx, run, 3) },
	} {
		if err := send(); err != nil {
			t.Fatal(err)
		}
	}
	if got := flowtest.Result(w, run); got != 3 {
		t.Errorf("got %d", got)
	}
}

// TestFLOW5_NoAcceptedMessageIsLostWhenItRacesWithTheEnd proves that a run has received each
// accepted message, or its last event lists the message as unread. The test sends messages while
// runs end.
func TestFLOW5_NoAcceptedMessageIsLostWhenItRacesWithTheEnd(t *testing.T) {
	racing := flowtest.Flow[int, int]("racing")
	const interleavings = 2000
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(racing, func(ctx workflow.Context, n int) (int, error) {
		if n%3 == 0 {
			if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
				return 0, err
			}
		}
		got := 0
		for {
			_, ok, err := flowtest.Numbers.TryReceive(ctx)
			if !ok || err != nil {
				return got, err
			}
			got++
		}
	}))
	var racers sync.WaitGroup
	for n := range interleavings {
		run := flowtest.Start(w, racing, n)
		var accepted atomic.Int64
		var senders sync.WaitGroup
		for i := range 2 + n%3 {
			senders.Go(func() {
				switch err := flowtest.Numbers.Send(w.Ctx, run, i); {
				case err == nil:
					accepted.Add(1)
				case !errors.Is(err, workflow.ErrRunTerminal):
					t.Error(err)
				}
			})
		}
		racers.Go(func() {
			senders.Wait()
			got := flowtest.Result(w, run)
			log := w.Log(run)
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
