package worker_test

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
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	level  = workflow.NewValue[int]("level")
	climbs = flow[int, int]("climbs") // sets level to 1, 2, … with each message
	climb  = as(climbs, func(ctx workflow.Context, n int) (int, error) {
		for i := range n {
			if _, err := numbers.Receive(ctx); err != nil {
				return i, err
			}
			level.Set(ctx, i+1)
		}
		return n, nil
	})
)

// send sends a number.
func (w *world) send(to workflow.Target, n int) {
	w.t.Helper()
	if err := numbers.Send(w.ctx, to, n); err != nil {
		w.t.Fatal(err)
	}
}

func TestFLOW7_AValueIsReadWhileTheRunGoesOnAndAfterItsEnd(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, climb)
		run := start(w, climbs, 2)
		if v, ok, err := level.Get(w.ctx, run); v != 0 || ok || err != nil {
			t.Errorf("before it is set: got %d, %t, %v", v, ok, err)
		}
		w.send(run, 1)
		if v, err := level.Wait(w.ctx, run); v != 1 || err != nil {
			t.Errorf("Wait: got %d, %v, want 1", v, err)
		}
		if v, ok, err := level.Get(w.ctx, w.client.Run(run.ID())); v != 1 || !ok || err != nil {
			t.Errorf("Get: got %d, %t, %v, want 1", v, ok, err)
		}
		w.send(run, 1)
		result(w, run)
		if v, ok, err := level.Get(w.ctx, run); v != 2 || !ok || err != nil {
			t.Errorf("after the end: got %d, %t, %v, want 2", v, ok, err)
		}
		if v, err := level.Wait(w.ctx, run); v != 2 || err != nil {
			t.Errorf("Wait after the end: got %d, %v, want 2", v, err)
		}
		if n := len(filter(w.log(run), event.ValueSet)); n != 2 {
			t.Errorf("the log has %d values, want 2", n)
		}
	})
}

func TestFLOW7_WaitEndsWithItsContextOrWithTheRun(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		run := start(w, climbs, 1)
		short, cancel := context.WithTimeout(w.ctx, 5*time.Millisecond)
		defer cancel()
		if _, err := level.Wait(short, run); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Wait: got %v, want the end of its context", err)
		}
		done := make(chan error, 1)
		go func() {
			_, err := level.Wait(w.ctx, run)
			done <- err
		}()
		if err := run.Cancel(w.ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		w.work(worker.Config{}, climb)
		if err := <-done; !errors.Is(err, workflow.ErrRunTerminal) || !containsAll(err.Error(), "level", string(run.ID())) {
			t.Fatalf("Wait: got %v, want one that matches ErrRunTerminal and names the value and the run", err)
		}
		unknown := w.client.Run(event.NewRunID(time.Now(), 7))
		if _, err := level.Wait(w.ctx, unknown); !errors.Is(err, workflow.ErrRunNotFound) {
			t.Errorf("an unknown run: got %v, want ErrRunNotFound", err)
		}
		if _, _, err := workflow.NewValue[string]("level").Get(w.ctx, unknown); !errors.Is(err, workflow.ErrRunNotFound) {
			t.Errorf("an unknown run: got %v, want ErrRunNotFound", err)
		}
	})
}

func TestFLOW7_WatchSeesTheNewestValuesInOrderAndEndsWithTheRun(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		const last = 200
		w.work(worker.Config{}, climb)
		run := start(w, climbs, last)
		watched := make(chan []int, 3)
		for range cap(watched) {
			go func() {
				var seen []int
				for v, err := range level.Watch(w.ctx, run) {
					if err != nil {
						t.Error(err)
					}
					seen = append(seen, v)
				}
				watched <- seen
			}()
		}
		for range last {
			w.send(run, 1)
		}
		for range cap(watched) {
			seen := <-watched
			if !slices.IsSorted(seen) || len(slices.Compact(slices.Clone(seen))) != len(seen) || len(seen) == 0 || seen[len(seen)-1] != last {
				t.Errorf("got %v, want rising values up to %d", seen, last)
			}
		}
		for range level.Watch(w.ctx, run) {
			break // must not be called again
		}
	})
}

func TestFLOW7_AValueOfAnotherTypeIsAPayloadError(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, climb)
	run := start(w, climbs, 1)
	w.send(run, 1)
	result(w, run)
	foreign := workflow.NewValue[string]("level")
	var payload *workflow.PayloadError
	if _, ok, err := foreign.Get(w.ctx, run); ok || !errors.As(err, &payload) || payload.What != "value level" {
		t.Errorf("Get: got %t, %v, want a *PayloadError", ok, err)
	}
	if _, err := foreign.Wait(w.ctx, run); !errors.As(err, &payload) {
		t.Errorf("Wait: got %v, want a *PayloadError", err)
	}
	for _, err := range foreign.Watch(w.ctx, run) {
		if !errors.As(err, &payload) {
			t.Errorf("Watch: got %v, want a *PayloadError", err)
		}
	}
}

func TestFLOW7_AValueThatCannotBeStoredEndsTheRun(t *testing.T) {
	ratio := workflow.NewValue[float64]("ratio")
	text := workflow.NewValue[string]("text")
	bad := flow[string, string]("bad")
	undone := aStep[string, string]("undone", shim.Policy{})
	w := newWorld(t, memstore.New(), workflow.ClientConfig{MaxPayload: 100})
	w.work(worker.Config{}, undone.as(func(_ context.Context, s string) (string, error) { return s, nil }),
		as(bad, func(ctx workflow.Context, in string) (string, error) {
			workflow.Compensate(ctx, func(ctx workflow.Context) error {
				_, err := undone.Call(ctx, in)
				return err
			})
			defer level.Set(ctx, 7) // the code has no more to say
			defer func() { _ = recover() }()
			if in == "large" {
				text.Set(ctx, strings.Repeat("x", 101))
			}
			ratio.Set(ctx, math.NaN())
			return "not reached", nil
		}))
	for in, want := range map[string]string{"large": "value text", "odd": "value ratio"} {
		run := start(w, bad, in)
		failed := failure(w, run)
		var payload *workflow.PayloadError
		if !errors.As(failed, &payload) || payload.What != want || failed.Code != event.CodePayload {
			t.Errorf("%s: got %v (%s), want a *PayloadError about %s", in, failed, failed.Code, want)
		}
		if len(failed.Undone) != 1 {
			t.Errorf("%s: undone %q, want one", in, failed.Undone)
		}
		if v, ok, err := level.Get(w.ctx, run); ok || err != nil {
			t.Errorf("%s: a deferred Set: got %d, %t, %v", in, v, ok, err)
		}
	}
}

func TestFLOW7_AValueIsSetOnAContextThatHasEnded(t *testing.T) {
	ended := flow[int, int]("ended")
	w := newMemory(t)
	w.work(worker.Config{}, as(ended, func(ctx workflow.Context, _ int) (int, error) {
		defer level.Set(ctx, 9)
		_, err := numbers.Receive(ctx)
		return 0, err
	}))
	run := start(w, ended, 1)
	w.reach(run, event.WaitCreated, 1)
	if err := run.Cancel(w.ctx, "enough"); err != nil {
		t.Fatal(err)
	}
	if v, err := level.Wait(w.ctx, run); v != 9 || err != nil {
		t.Errorf("got %d, %v, want 9", v, err)
	}
	if got := failure(w, run).Status; got != workflow.StatusCanceled {
		t.Errorf("status: %s", got)
	}
}

func TestFLOW7_ValuesStayWhenARunContinuesAsNew(t *testing.T) {
	rounds := flow[int, int]("rounds")
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, as(rounds, func(ctx workflow.Context, n int) (int, error) {
			switch n {
			case 0:
				level.Set(ctx, 1)
			case 3:
				if _, err := numbers.Receive(ctx); err != nil {
					return 0, err
				}
				level.Set(ctx, 2)
				return n, nil
			}
			return 0, rounds.ContinueAsNew(ctx, n+1)
		}))
		first := start(w, rounds, 0)
		if v, err := level.Wait(w.ctx, first); v != 1 || err != nil {
			t.Errorf("got %d, %v, want 1", v, err)
		}
		watched := make(chan []int, 1)
		go func() {
			var all []int
			for v := range level.Watch(w.ctx, first) {
				all = append(all, v)
			}
			watched <- all
		}()
		w.eventually("it has continued", func() bool { return len(filter(w.log(first), event.RunContinued)) == 1 })
		if v, ok, err := level.Get(w.ctx, first); v != 1 || !ok || err != nil {
			t.Errorf("after it has continued: got %d, %t, %v, want 1", v, ok, err)
		}
		w.send(first, 1)
		result(w, first)
		if got := <-watched; got[len(got)-1] != 2 {
			t.Errorf("watched %v, want 2 at the end", got)
		}
	})
}

func TestFLOW7_ARunThatTakesOverAnotherPublishesTheValuesOfWhatItTookOver(t *testing.T) {
	forked := flow[int, int]("forked")
	note := aStep[int, int]("note", shim.Policy{})
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, note.as(func(_ context.Context, n int) (int, error) { return n, nil }),
			as(forked, func(ctx workflow.Context, _ int) (int, error) {
				level.Set(ctx, 1)
				level.Set(ctx, 2)
				if _, err := note.CallKey(ctx, "here", 1); err != nil {
					return 0, err
				}
				if _, err := numbers.Receive(ctx); err != nil {
					return 0, err
				}
				level.Set(ctx, 3)
				return 1, nil
			}))
		run := start(w, forked, 0)
		w.reach(run, event.WaitCreated, 1)
		fork, err := run.Fork(w.ctx, "forked/test.note[here]")
		if err != nil {
			t.Fatal(err)
		}
		if v, err := level.Wait(w.ctx, fork); v != 2 || err != nil {
			t.Errorf("the fork: got %d, %v, want 2", v, err)
		}
		w.send(run, 1)
		result(w, run)
		if v, _, err := level.Get(w.ctx, fork); v != 2 || err != nil {
			t.Errorf("the fork while the old run goes on: got %d, %v, want 2", v, err)
		}
		w.send(fork, 1)
		result(w, fork)
		if v, _, err := level.Get(w.ctx, fork); v != 3 || err != nil {
			t.Errorf("the fork at its end: got %d, %v, want 3", v, err)
		}
	})
}

func TestFLOW7_TheValuesOfAForkThatOnlyWaitsAreThere(t *testing.T) {
	forked := flow[int, int]("waits")
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, as(forked, func(ctx workflow.Context, _ int) (int, error) {
			level.Set(ctx, 2)
			return numbers.Receive(ctx)
		}))
		run := start(w, forked, 0)
		w.reach(run, event.WaitCreated, 1)
		if err := run.Cancel(w.ctx, "enough"); err != nil {
			t.Fatal(err)
		}
		failure(w, run)
		again, err := run.RetryCanceled(w.ctx)
		if err != nil {
			t.Fatal(err)
		}
		if v, err := level.Wait(w.ctx, again); v != 2 || err != nil {
			t.Errorf("got %d, %v, want 2", v, err)
		}
		w.send(again, 5)
		if got := result(w, again); got != 5 {
			t.Errorf("result: %d", got)
		}
		if n := len(filter(w.log(again), event.ValuesKept)); n != 1 {
			t.Errorf("the log has %d values_kept, want 1", n)
		}
	})
}
