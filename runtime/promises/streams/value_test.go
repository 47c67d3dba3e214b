package streams_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestFLOW7_AValueIsReadWhileTheRunGoesOnAndAfterItsEnd(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Climb)
		run := flowtest.Start(w, flowtest.Climbs, 2)
		if v, ok, err := flowtest.Level.Get(w.Ctx, run); v != 0 || ok || err != nil {
			t.Errorf("before it is set: got %d, %t, %v", v, ok, err)
		}
		w.Send(run, 1)
		if v, err := flowtest.Level.Wait(w.Ctx, run); v != 1 || err != nil {
			t.Errorf("Wait: got %d, %v, want 1", v, err)
		}
		if v, ok, err := flowtest.Level.Get(w.Ctx, w.Client.Run(run.ID())); v != 1 || !ok || err != nil {
			t.Errorf("Get: got %d, %t, %v, want 1", v, ok, err)
		}
		w.Send(run, 1)
		flowtest.Result(w, run)
		if v, ok, err := flowtest.Level.Get(w.Ctx, run); v != 2 || !ok || err != nil {
			t.Errorf("after the end: got %d, %t, %v, want 2", v, ok, err)
		}
		if v, err := flowtest.Level.Wait(w.Ctx, run); v != 2 || err != nil {
			t.Errorf("Wait after the end: got %d, %v, want 2", v, err)
		}
		if n := len(flowtest.Filter(w.Log(run), event.ValueSet)); n != 2 {
			t.Errorf("the log has %d values, want 2", n)
		}
	})
}

func TestFLOW7_WaitEndsWithItsContextOrWithTheRun(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		run := flowtest.Start(w, flowtest.Climbs, 1)
		short, cancel := context.WithTimeout(w.Ctx, 5*time.Millisecond)
		defer cancel()
		if _, err := flowtest.Level.Wait(short, run); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: got %v, want the end of its context", err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := flowtest.Level.Wait(w.Ctx, run)
			done <- err
		}()
		if err := run.Cancel(w.Ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		w.Work(worker.Config{}, flowtest.Climb)
		if err := <-done; !errors.Is(err, workflow.ErrRunTerminal) || !flowtest.ContainsAll(err.Error(), "level", string(run.ID())) {
			t.Fatalf("Wait: got %v, want one that matches ErrRunTerminal and names the value and the run", err)
		}
		unknown := w.Client.Run(event.NewRunID(time.Now(), 7))
		if _, err := flowtest.Level.Wait(w.Ctx, unknown); !errors.Is(err, workflow.ErrRunNotFound) {
			t.Errorf("an unknown run: got %v, want ErrRunNotFound", err)
		}
		if _, _, err := workflow.NewValue[string]("level").Get(w.Ctx, unknown); !errors.Is(err, workflow.ErrRunNotFound) {
			t.Errorf("an unknown run: got %v, want ErrRunNotFound", err)
		}
	})
}

func TestFLOW7_WatchSeesTheNewestValuesInOrderAndEndsWithTheRun(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		const last = 200
		w.Work(worker.Config{}, flowtest.Climb)
		run := flowtest.Start(w, flowtest.Climbs, last)
		watched := make(chan []int, 3)
		for range cap(watched) {
			go func() {
				var seen []int
				for v, err := range flowtest.Level.Watch(w.Ctx, run) {
					if err != nil {
						t.Error(err)
					}
					seen = append(seen, v)
				}
				watched <- seen
			}()
		}
		for range last {
			w.Send(run, 1)
		}
		for range cap(watched) {
			seen := <-watched
			if !slices.IsSorted(seen) || len(slices.Compact(slices.Clone(seen))) != len(seen) || len(seen) == 0 || seen[len(seen)-1] != last {
				t.Errorf("got %v, want rising values up to %d", seen, last)
			}
		}
		for range flowtest.Level.Watch(w.Ctx, run) {
			break // the iterator must not call the loop body again
		}
	})
}

func TestFLOW7_AValueOfAnotherTypeIsAPayloadError(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Climb)
	run := flowtest.Start(w, flowtest.Climbs, 1)
	w.Send(run, 1)
	flowtest.Result(w, run)
	foreign := workflow.NewValue[string]("level")
	var payload *workflow.PayloadError
	if _, ok, err := foreign.Get(w.Ctx, run); ok || !errors.As(err, &payload) || payload.What != "value level" {
		t.Errorf("Get: got %t, %v, want a *PayloadError", ok, err)
	}
	if _, err := foreign.Wait(w.Ctx, run); !errors.As(err, &payload) {
		t.Errorf("Wait: got %v, want a *PayloadError", err)
	}
	for _, err := range foreign.Watch(w.Ctx, run) {
		if !errors.As(err, &payload) {
			t.Errorf("Watch: got %v, want a *PayloadError", err)
		}
	}
}

func TestFLOW7_AValueThatCannotBeStoredEndsTheRun(t *testing.T) {
	ratio := workflow.NewValue[float64]("ratio")
	text := workflow.NewValue[string]("text")
	bad := flowtest.Flow[string, string]("bad")
	undone := flowtest.AStep[string, string]("undone", shim.Policy{})
	w := flowtest.NewWorld(t, memstore.New(), workflow.ClientConfig{MaxPayload: 100})
	w.Work(worker.Config{}, undone.As(func(_ context.Context, s string) (string, error) { return s, nil }),
		flowtest.As(bad, func(ctx workflow.Context, in string) (string, error) {
			workflow.Compensate(ctx, func(ctx workflow.Context) error {
				_, err := undone.Call(ctx, in)
				return err
			})
			defer flowtest.Level.Set(ctx, 7) // has no effect, because the code has ended
			defer func() { _ = recover() }()
			if in == "large" {
				text.Set(ctx, strings.Repeat("x", 101))
			}
			ratio.Set(ctx, math.NaN())
			return "not reached", nil
		}))
	for in, want := range map[string]string{"large": "value text", "odd": "value ratio"} {
		run := flowtest.Start(w, bad, in)
		failed := flowtest.Failure(w, run)
		var payload *workflow.PayloadError
		if !errors.As(failed, &payload) || payload.What != want || failed.Code != event.CodePayload {
			t.Errorf("%s: got %v (%s), want a *PayloadError about %s", in, failed, failed.Code, want)
		}
		if len(failed.Undone) != 1 {
			t.Errorf("%s: undone %q, want one", in, failed.Undone)
		}
		if v, ok, err := flowtest.Level.Get(w.Ctx, run); ok || err != nil {
			t.Errorf("%s: a deferred Set: got %d, %t, %v", in, v, ok, err)
		}
	}
}

func TestFLOW7_AValueIsSetOnAContextThatHasEnded(t *testing.T) {
	ended := flowtest.Flow[int, int]("ended")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.As(ended, func(ctx workflow.Context, _ int) (int, error) {
		defer flowtest.Level.Set(ctx, 9)
		_, err := flowtest.Numbers.Receive(ctx)
		return 0, err
	}))
	run := flowtest.Start(w, ended, 1)
	w.Reach(run, event.WaitCreated, 1)
	if err := run.Cancel(w.Ctx, "enough"); err != nil {
		t.Fatal(err)
	}
	if v, err := flowtest.Level.Wait(w.Ctx, run); v != 9 || err != nil {
		t.Errorf("got %d, %v, want 9", v, err)
	}
	if got := flowtest.Failure(w, run).Status; got != workflow.StatusCanceled {
		t.Errorf("status: %s", got)
	}
}

func TestFLOW7_ValuesStayWhenARunContinuesAsNew(t *testing.T) {
	rounds := flowtest.Flow[int, int]("rounds")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(rounds, func(ctx workflow.Context, n int) (int, error) {
			switch n {
			case 0:
				flowtest.Level.Set(ctx, 1)
			case 3:
				if _, err := flowtest.Numbers.Receive(ctx); err != nil {
					return 0, err
				}
				flowtest.Level.Set(ctx, 2)
				return n, nil
			}
			return 0, rounds.ContinueAsNew(ctx, n+1)
		}))
		first := flowtest.Start(w, rounds, 0)
		if v, err := flowtest.Level.Wait(w.Ctx, first); v != 1 || err != nil {
			t.Errorf("got %d, %v, want 1", v, err)
		}
		watched := make(chan []int, 1)
		go func() {
			var all []int
			for v := range flowtest.Level.Watch(w.Ctx, first) {
				all = append(all, v)
			}
			watched <- all
		}()
		w.Eventually("it has continued", func() bool { return len(flowtest.Filter(w.Log(first), event.RunContinued)) == 1 })
		if v, ok, err := flowtest.Level.Get(w.Ctx, first); v != 1 || !ok || err != nil {
			t.Errorf("after it has continued: got %d, %t, %v, want 1", v, ok, err)
		}
		w.Send(first, 1)
		flowtest.Result(w, first)
		if got := <-watched; got[len(got)-1] != 2 {
			t.Errorf("watched %v, want 2 at the end", got)
		}
	})
}

func TestFLOW7_ARunThatTakesOverAnotherPublishesTheValuesOfWhatItTookOver(t *testing.T) {
	forked := flowtest.Flow[int, int]("forked")
	note := flowtest.AStep[int, int]("note", shim.Policy{})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, note.As(func(_ context.Context, n int) (int, error) { return n, nil }),
			flowtest.As(forked, func(ctx workflow.Context, _ int) (int, error) {
				flowtest.Level.Set(ctx, 1)
				flowtest.Level.Set(ctx, 2)
				if _, err := note.CallKey(ctx, "here", 1); err != nil {
					return 0, err
				}
				if _, err := flowtest.Numbers.Receive(ctx); err != nil {
					return 0, err
				}
				flowtest.Level.Set(ctx, 3)
				return 1, nil
			}))
		run := flowtest.Start(w, forked, 0)
		w.Reach(run, event.WaitCreated, 1)
		fork, err := run.Fork(w.Ctx, "forked/test.note[here]")
		if err != nil {
			t.Fatal(err)
		}
		if v, err := flowtest.Level.Wait(w.Ctx, fork); v != 2 || err != nil {
			t.Errorf("the fork: got %d, %v, want 2", v, err)
		}
		w.Send(run, 1)
		flowtest.Result(w, run)
		if v, _, err := flowtest.Level.Get(w.Ctx, fork); v != 2 || err != nil {
			t.Errorf("the fork while the old run goes on: got %d, %v, want 2", v, err)
		}
		w.Send(fork, 1)
		flowtest.Result(w, fork)
		if v, _, err := flowtest.Level.Get(w.Ctx, fork); v != 3 || err != nil {
			t.Errorf("the fork at its end: got %d, %v, want 3", v, err)
		}
	})
}

func TestFLOW7_TheValuesOfAForkThatOnlyWaitsAreThere(t *testing.T) {
	forked := flowtest.Flow[int, int]("waits")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(forked, func(ctx workflow.Context, _ int) (int, error) {
			flowtest.Level.Set(ctx, 2)
			return flowtest.Numbers.Receive(ctx)
		}))
		run := flowtest.Start(w, forked, 0)
		w.Reach(run, event.WaitCreated, 1)
		if err := run.Cancel(w.Ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		flowtest.Failure(w, run)
		again, err := run.RetryCanceled(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := flowtest.Level.Wait(w.Ctx, again); v != 2 || err != nil {
			t.Errorf("got %d, %v, want 2", v, err)
		}
		w.Send(again, 5)
		if got := flowtest.Result(w, again); got != 5 {
			t.Errorf("result: %d", got)
		}
		if n := len(flowtest.Filter(w.Log(again), event.ValuesKept)); n != 1 {
			t.Errorf("the log has %d values_kept, want 1", n)
		}
	})
}
