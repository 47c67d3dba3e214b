package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/generated/workflows"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	echo   = flow[string, string]("echo")
	runs   = as(echo, func(_ workflow.Context, in string) (string, error) { return "<" + in + ">", nil })
	parker = flow[string, string]("parker") // waits for one message and returns it
	wake   = workflow.NewTopic[string]("wake")
	parks  = as(parker, func(ctx workflow.Context, _ string) (string, error) { return wake.Receive(ctx) })
)

func TestRUN1_StartReturnsATypedHandleAndExecuteTheResult(t *testing.T) {
	onEachStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, runs)
		run, err := echo.Start(w.ctx, w.client, "a")
		if err != nil {
			t.Fatal(err)
		}
		if got := result(w, run); got != "<a>" || !run.Created() {
			t.Errorf("got %q, created %v", got, run.Created())
		}
		if got, err := echo.Execute(w.ctx, w.client, "b"); got != "<b>" || err != nil {
			t.Errorf("Execute: got %q, %v", got, err)
		}
		again := echo.Get(w.client, run.ID())
		if got := result(w, again); got != "<a>" || again.Created() {
			t.Errorf("by run id: got %q, created %v", got, again.Created())
		}
	})
}

func TestRUN1_GeneratedWorkflowsOfEveryShapeComplete(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, func(r workflow.Registrar) { workflows.Register(r) })
	if got, err := workflows.Transfer.Execute(w.ctx, w.client, workflows.TransferInput{From: "a", To: "b", Cents: 7}); got != 7 || err != nil {
		t.Errorf("several inputs: got %d, %v", got, err)
	}
	if _, err := workflows.Nightly.Execute(w.ctx, w.client, workflow.None{}); err != nil {
		t.Errorf("no input, no result: %v", err)
	}
	if _, err := workflows.Archive.Execute(w.ctx, w.client, 30); err != nil {
		t.Errorf("input only: %v", err)
	}
	if got, err := workflows.Fulfil.Execute(w.ctx, w.client, workflows.Order{ID: "1"}); err != nil || got.IsZero() {
		t.Errorf("input and result: got %v, %v", got, err)
	}
}

func TestRUN1_AHandleOfAnotherWorkflowsRunIsATypedError(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, runs)
	run := start(w, echo, "a")
	_ = result(w, run)
	_, err := parker.Get(w.client, run.ID()).Result(w.ctx)
	if !errors.Is(err, workflow.ErrWrongWorkflow) || !containsAll(err.Error(), "test.echo", "test.parker") {
		t.Errorf("got %v", err)
	}
}

func TestRUN2_FiftyConcurrentStartersGetOneRun(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, parks)
		var created atomic.Int32
		var ids sync.Map
		var starters sync.WaitGroup
		for range 50 {
			starters.Go(func() {
				run, err := parker.Start(w.ctx, w.client, "x", workflow.WithID("order-1"))
				if err != nil {
					t.Error(err)
					return
				}
				if run.Created() {
					created.Add(1)
				}
				ids.Store(run.ID(), true)
			})
		}
		starters.Wait()
		n := 0
		ids.Range(func(any, any) bool { n++; return true })
		if n != 1 || created.Load() != 1 {
			t.Errorf("got %d runs, %d starters that created one; want 1 and 1", n, created.Load())
		}
		if err := wake.Send(w.ctx, w.client.RunByID("order-1"), "up"); err != nil {
			t.Fatal(err)
		}
		if got := result(w, parker.GetByID(w.client, "order-1")); got != "up" {
			t.Errorf("got %q", got)
		}
	})
}

func TestRUN2_AnActiveIdFailsWithTheActiveRunIfAskedTo(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, parks)
		first := start(w, parker, "x", workflow.WithID("id"))
		_, err := parker.Start(w.ctx, w.client, "y", workflow.WithID("id"), workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.FailActive}))
		var active *workflow.ActiveRunError
		if !errors.As(err, &active) || active.Run != first.ID() || active.WorkflowID != "id" {
			t.Errorf("got %v, want an *ActiveRunError with run %s", err, first.ID())
		}
	})
}

func TestRUN2_CancelActiveStartsWhenTheOtherHasEnded(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, parks)
		policy := workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.CancelActive})
		first := start(w, parker, "x", workflow.WithID("id"), policy)
		w.reach(first, event.WaitCreated, 1)
		second := start(w, parker, "y", workflow.WithID("id"), policy)
		if !second.Created() || second.ID() == first.ID() {
			t.Fatalf("the second start created %v, run %s", second.Created(), second.ID())
		}
		if err := failure(w, first); err.Status != workflow.StatusCanceled {
			t.Errorf("the first run is %s, want cancelled", err.Status)
		}
		started := w.reach(second, event.RunStarted, 1)
		if end := w.log(first); started.Time.Before(end[len(end)-1].Time) {
			t.Errorf("the second run started at %v, the first ended at %v", started.Time, end[len(end)-1].Time)
		}
		if err := wake.Send(w.ctx, second, "up"); err != nil {
			t.Fatal(err)
		}
		if got := result(w, second); got != "up" {
			t.Errorf("got %q", got)
		}
	})
}

func TestRUN2_FinishedIdsAreAllowedAllowedAfterFailureOrRejected(t *testing.T) {
	either := flow[bool, string]("either")
	onEachStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, as(either, func(_ workflow.Context, ok bool) (string, error) {
			if !ok {
				return "", errors.New("bad")
			}
			return "good", nil
		}))
		with := func(id string, p workflow.FinishedPolicy) []workflow.StartOption {
			return []workflow.StartOption{workflow.WithID(id), workflow.WithIDPolicy(workflow.IDPolicy{Finished: p})}
		}
		for _, c := range []struct {
			ok      bool
			policy  workflow.FinishedPolicy
			refused bool
		}{
			{true, workflow.AllowFinished, false}, {false, workflow.AllowFinished, false},
			{true, workflow.AllowFinishedAfterFailure, true}, {false, workflow.AllowFinishedAfterFailure, false},
			{true, workflow.RejectFinished, true}, {false, workflow.RejectFinished, true},
		} {
			id := fmt.Sprintf("id-%v-%d", c.ok, c.policy)
			first := start(w, either, c.ok, with(id, c.policy)...)
			_, _ = first.Result(w.ctx)
			_, err := either.Start(w.ctx, w.client, c.ok, with(id, c.policy)...)
			var finished *workflow.FinishedRunError
			if errors.As(err, &finished) != c.refused {
				t.Errorf("%s: second start: got %v, want refused %v", id, err, c.refused)
			}
			if c.refused && finished != nil && finished.Run != first.ID() {
				t.Errorf("%s: the error names run %s, want %s", id, finished.Run, first.ID())
			}
		}
	})
}

func TestRUN3_StartOptionsReachTheRun(t *testing.T) {
	info := flow[workflow.None, workflow.Identity]("info")
	w := newMemory(t)
	w.work(worker.Config{Queues: []string{"bulk"}}, as(info, func(ctx workflow.Context, _ workflow.None) (workflow.Identity, error) {
		return workflow.Info(ctx), nil
	}))
	run := start(w, info, workflow.None{}, workflow.WithID("o-1"), workflow.WithQueue("bulk"),
		workflow.WithTags(map[string]string{"a": "1"}), workflow.WithTags(map[string]string{"b": "2"}))
	got := result(w, run)
	outside, err := run.Info(w.ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := workflow.Identity{
		ID: run.ID(), WorkflowID: "o-1", Workflow: "test.info", Queue: "bulk", Tags: map[string]string{"a": "1", "b": "2"},
		Root: run.ID(), CreatedAt: outside.CreatedAt,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inside (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, outside.Identity); diff != "" {
		t.Errorf("outside (-want +got):\n%s", diff)
	}
}

func TestRUN3_ADelayedRunStartsWhenItsTimeHasCome(t *testing.T) {
	w := newVirtual(t)
	w.work(worker.Config{}, runs)
	begun := w.clock.Now()
	late := start(w, echo, "late", workflow.WithDelay(3*time.Hour))
	later := start(w, echo, "later", workflow.WithStartAt(begun.Add(5*time.Hour)))
	past := start(w, echo, "past", workflow.WithStartAt(begun.Add(-time.Hour)))
	if got := result(w, past); got != "<past>" {
		t.Errorf("got %q", got)
	}
	for run, want := range map[*workflow.Run[string]]time.Duration{late: 3 * time.Hour, later: 5 * time.Hour} {
		if info, err := run.Info(w.ctx); err != nil || info.Status != workflow.StatusPending || info.Due.Sub(begun) != want {
			t.Errorf("before its time: %v, %v, %v", info.Status, info.Due.Sub(begun), err)
		}
	}
	w.clock.Advance(3 * time.Hour)
	_ = result(w, late)
	w.clock.Advance(2 * time.Hour)
	_ = result(w, later)
	for run, want := range map[*workflow.Run[string]]time.Duration{late: 3 * time.Hour, later: 5 * time.Hour} {
		if e := filter(w.log(run), event.RunStarted)[0]; !exactly(e.Time.Sub(begun), want) {
			t.Errorf("started after %v, want %v", e.Time.Sub(begun), want)
		}
	}
}

func TestRUN3_HigherPriorityIsClaimedFirst(t *testing.T) {
	onPartitions(t, 1, func(t *testing.T, w *world) {
		var order seen[string]
		var started []*workflow.Run[string]
		for _, p := range []int{1, 3, -2, 2, 0} {
			started = append(started, start(w, echo, fmt.Sprint("p", p), workflow.WithPriority(p)))
		}
		w.work(worker.Config{Runs: 1}, as(echo, func(_ workflow.Context, in string) (string, error) {
			order.add(in)
			return in, nil
		}))
		for _, run := range started {
			_ = result(w, run)
		}
		if diff := cmp.Diff([]string{"p3", "p2", "p1", "p0", "p-2"}, order.get()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestRUN3_WrongOptionsSendNothing(t *testing.T) {
	w := newMemory(t)
	for name, o := range map[string]workflow.StartOption{
		"negative delay": workflow.WithDelay(-time.Second), "no timeout": workflow.WithRunTimeout(0),
	} {
		if run, err := echo.Start(w.ctx, w.client, "x", o); err == nil {
			t.Errorf("%s: started run %s", name, run.ID())
		}
	}
	if n, err := w.client.Count(w.ctx, workflow.Filter{}); err != nil || len(n) != 0 {
		t.Errorf("got runs %v, %v", n, err)
	}
}

func TestRUN14_StartManyJudgesEachRunByItself(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, runs)
	once := workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.FailActive, Finished: workflow.RejectFinished})
	started, err := echo.StartMany(w.ctx, w.client, []workflow.StartRequest[string]{
		{Input: "a", Options: []workflow.StartOption{workflow.WithID("a"), once}},
		{Input: "b", Options: []workflow.StartOption{workflow.WithID("a"), once}},
		{Input: "c"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if started[0].Err != nil || started[1].Err == nil || started[2].Err != nil {
		t.Fatalf("got errors %v, %v, %v; want only the second", started[0].Err, started[1].Err, started[2].Err)
	}
	if got := []string{result(w, started[0].Run), result(w, started[2].Run)}; !slices.Equal(got, []string{"<a>", "<c>"}) {
		t.Errorf("got %v", got)
	}
}

func TestRUN14_StartManyAsksTheStoreOnceForAllRuns(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		const n = 500
		counted := &between{Store: w.store}
		client := workflow.NewClient(counted, workflow.ClientConfig{})
		defer client.Close()
		requests := make([]workflow.StartRequest[string], n)
		for i := range requests {
			requests[i].Options = []workflow.StartOption{workflow.WithID(fmt.Sprint("id ", i))}
		}
		for _, round := range []struct {
			created bool
			want    map[string]int
		}{{true, map[string]int{"create": 1}}, {false, map[string]int{"create": 1, "load": 1}}} {
			before := counted.tally()
			started, err := echo.StartMany(w.ctx, client, requests)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range started {
				if s.Err != nil || s.Run.Created() != round.created {
					t.Fatalf("start %d: %v, created %t, want %t", i, s.Err, s.Run != nil && s.Run.Created(), round.created)
				}
			}
			got := counted.tally()
			for op, n := range before {
				if got[op] -= n; got[op] == 0 {
					delete(got, op)
				}
			}
			if diff := cmp.Diff(round.want, got); diff != "" {
				t.Errorf("requests for %d starts, created: %t (-want +got):\n%s", n, round.created, diff)
			}
		}
	})
}

// counting counts what is asked of a store.
type counting struct {
	store.Store
	loads, watches atomic.Int64
}

func (c *counting) Unwrap() store.Store { return c.Store }

func (c *counting) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	c.loads.Add(1)
	return c.Store.Load(ctx, runs)
}

func (c *counting) Watch(ctx context.Context, run event.RunID, n uint64) error {
	c.watches.Add(1)
	return c.Store.Watch(ctx, run, n)
}
