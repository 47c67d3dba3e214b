package flows_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// tally is the input of a workflow that counts messages and continues as new.
type tally struct {
	Left  int `json:"left"` // number of messages that have not been received
	Each  int `json:"each"` // number of messages that each run receives
	Sum   int `json:"sum"`
	Turns int `json:"turns"`
}

var (
	tallies = flowtest.Flow[tally, tally]("tallies")
	count   = flowtest.As(tallies, func(ctx workflow.Context, in tally) (tally, error) {
		for range in.Each {
			if in.Left == 0 {
				return in, nil
			}
			v, err := flowtest.Numbers.Receive(ctx)
			if err != nil {
				return in, err
			}
			in.Left--
			in.Sum += v
		}
		in.Turns++
		return tally{}, tallies2.ContinueAsNew(ctx, in)
	})
	tallies2 = flowtest.Flow[tally, tally]("tallies")
)

func TestFLOW10_NoMessageIsLostWhileARunContinues(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		const senders, each = 4, 300
		w.Work(worker.Config{}, count)
		run := flowtest.Start(w, tallies, tally{Left: senders * each, Each: 20}, workflow.WithID("counter"))
		var all sync.WaitGroup
		want := 0
		for s := range senders {
			for n := range each {
				want += s*each + n
			}
			all.Go(func() {
				to := workflow.Target(run) // this target is the ID of the first run of the chain
				if s%2 == 0 {
					to = tallies.GetByID(w.Client, "counter")
				}
				for n := range each {
					if err := flowtest.Numbers.Send(w.Ctx, to, s*each+n); err != nil {
						t.Errorf("send: %v", err)
					}
				}
			})
		}
		all.Wait()
		got := flowtest.Result(w, run)
		if got.Sum != want || got.Turns != senders*each/20 {
			t.Errorf("got sum %d in %d turns, want %d in %d", got.Sum, got.Turns, want, senders*each/20)
		}
	})
}

// TestFLOW10_CodeThatContinuesAtALengthGetsSomewhereHoweverMuchWaits proves that a run makes
// progress if the waiting messages alone exceed the length at which its code continues as new.
func TestFLOW10_CodeThatContinuesAtALengthGetsSomewhereHoweverMuchWaits(t *testing.T) {
	const length, messages = 1_500, 2_000
	loop := flowtest.As(tallies, func(ctx workflow.Context, in tally) (tally, error) {
		for workflow.LogLength(ctx) < length {
			if in.Left == 0 {
				return in, nil
			}
			v, err := flowtest.Numbers.Receive(ctx)
			if err == nil {
				v, err = workflow.Record(ctx, func() (int, error) { return v, nil })
			}
			if err != nil {
				return in, err
			}
			in.Left--
			in.Sum += v
		}
		in.Turns++
		return tally{}, tallies2.ContinueAsNew(ctx, in)
	})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		run := flowtest.Start(w, tallies, tally{Left: messages})
		for range messages {
			if err := flowtest.Numbers.Send(w.Ctx, run, 1); err != nil {
				t.Fatal(err)
			}
		}
		w.Work(worker.Config{}, loop)
		if got := flowtest.Result(w, run); got.Sum != messages || got.Turns < 1 || got.Turns > 10 {
			t.Errorf("got %+v, want sum %d in a few turns", got, messages)
		}
	})
}

// TestFLOW5_ARunEndsThatHasReadAsMuchAsItsWorkerReadsAtOnce proves that a run can end after it has
// received as many messages as a worker reads at once. A worker reads at most a thousand messages
// between two commits. Here the run ends before the next commit.
func TestFLOW5_ARunEndsThatHasReadAsMuchAsItsWorkerReadsAtOnce(t *testing.T) {
	sums := flowtest.Flow[int, int]("sumsall")
	all := flowtest.As(sums, func(ctx workflow.Context, n int) (sum int, err error) {
		for range n {
			v, err := flowtest.Numbers.Receive(ctx)
			if err != nil {
				return sum, err
			}
			sum += v
		}
		return sum, nil
	})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		send := func(run *workflow.Run[int], messages int) {
			t.Helper()
			for range messages {
				if err := flowtest.Numbers.Send(w.Ctx, run, 1); err != nil {
					t.Fatal(err)
				}
			}
		}
		begun := flowtest.Start(w, sums, 700)
		w.Work(worker.Config{}, all)
		w.Reach(begun, event.RunStarted, 1)
		w.StopWorkers()
		fresh := flowtest.Start(w, sums, 2_000)
		send(fresh, 2_000)
		send(begun, 1_500)
		w.Work(worker.Config{}, all)
		for run, want := range map[*workflow.Run[int]]int{fresh: 2_000, begun: 700} {
			if got := flowtest.Result(w, run); got != want {
				t.Errorf("got %d, want %d", got, want)
			}
		}
		w.StopWorkers()
		w.Healthy()
	})
}

func TestFLOW10_WhatTheCodeHasNotTakenIsCarriedOverInOrder(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		words, more := workflow.NewTopic[string]("words"), workflow.NewTopic[int]("more")
		reads := flowtest.Flow[int, []string]("reads")
		reader := flowtest.As(reads, func(ctx workflow.Context, turn int) ([]string, error) {
			if _, err := more.Receive(ctx); err != nil {
				return nil, err
			}
			if turn == 0 {
				return nil, flowtest.Flow[int, []string]("reads").ContinueAsNew(ctx, 1)
			}
			var all []string
			for v, ok, err := words.TryReceive(ctx); ok && err == nil; v, ok, err = words.TryReceive(ctx) {
				all = append(all, v)
			}
			return all, nil
		})
		run := flowtest.Start(w, reads, 0)
		want := []string{"a", "b", "c", "d"}
		for _, s := range want {
			if err := words.Send(w.Ctx, run, s); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			if err := more.Send(w.Ctx, run, 1); err != nil {
				t.Fatal(err)
			}
		}
		w.Work(worker.Config{}, reader)
		if diff := cmp.Diff(want, flowtest.Result(w, run)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		last := w.Log(run)
		if e := last[len(last)-1]; e.Type != event.RunContinued || len(e.Unread) == 0 {
			t.Errorf("the first run ended with %s and %d unread items", e.Type, len(e.Unread))
		}
	})
}

func TestFLOW10_ACancelThatTheCodeDidNotFollowReachesTheNextRun(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		loops := flowtest.Flow[int, int]("loops")
		w.Work(worker.Config{}, flowtest.As(loops, func(ctx workflow.Context, n int) (int, error) {
			_, err := flowtest.Numbers.Receive(ctx)
			if n == 0 && errors.Is(err, workflow.ErrCanceled) { // the first run ignores the cancel
				return 0, flowtest.Flow[int, int]("loops").ContinueAsNew(ctx, 1)
			}
			return n, err
		}))
		run := flowtest.Start(w, loops, 0)
		w.Reach(run, event.WaitCreated, 1)
		if err := run.Cancel(w.Ctx, "stop"); err != nil {
			t.Fatal(err)
		}
		if e := flowtest.Failure(w, run); e.Status != workflow.StatusCanceled {
			t.Errorf("got %s, want cancelled", e.Status)
		}
	})
}

// TestFLOW10_ACancelIsCarriedOverBehindTheMessages proves that a cancel reaches the run that
// continues a canceled run. Unread messages that the new run takes over do not delay the cancel.
func TestFLOW10_ACancelIsCarriedOverBehindTheMessages(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		loops, words := flowtest.Flow[int, int]("stubborn"), workflow.NewTopic[string]("words")
		stubborn := flowtest.As(loops, func(ctx workflow.Context, n int) (int, error) {
			_, err := flowtest.Numbers.Receive(ctx)
			if n == 0 && errors.Is(err, workflow.ErrCanceled) {
				return 0, flowtest.Flow[int, int]("stubborn").ContinueAsNew(ctx, 1)
			}
			return n, err
		})
		w.Work(worker.Config{}, stubborn)
		run := flowtest.Start(w, loops, 0)
		w.Reach(run, event.WaitCreated, 1)
		for range 3 {
			if err := words.Send(w.Ctx, run, "unread"); err != nil {
				t.Fatal(err)
			}
		}
		if err := run.Cancel(w.Ctx, "stop"); err != nil {
			t.Fatal(err)
		}
		if e := flowtest.Failure(w, run); e.Status != workflow.StatusCanceled {
			t.Errorf("got %s, want cancelled", e.Status)
		}
	})
}

func TestFLOW10_AWorkflowContinuesOnlyAsItself(t *testing.T) {
	w := flowtest.NewMemory(t)
	strays := flowtest.Flow[int, int]("strays")
	w.Work(worker.Config{}, count, flowtest.As(strays, func(ctx workflow.Context, _ int) (int, error) {
		return 0, tallies.ContinueAsNew(ctx, tally{})
	}))
	if e := flowtest.Failure(w, flowtest.Start(w, strays, 0)); e.Reason == "" {
		t.Errorf("got %v, want a reason", e)
	}
}
