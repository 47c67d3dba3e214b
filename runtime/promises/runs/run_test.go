package runs_test

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
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestRUN1_StartReturnsATypedHandleAndExecuteTheResult(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Runs)
		run, err := flowtest.Echo.Start(w.Ctx, w.Client, "a")
		if err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, run); got != "<a>" || !run.Created() {
			t.Errorf("got %q, created %v", got, run.Created())
		}
		if got, err := flowtest.Echo.Execute(w.Ctx, w.Client, "b"); got != "<b>" || err != nil {
			t.Errorf("Execute: got %q, %v", got, err)
		}
		again := flowtest.Echo.Get(w.Client, run.ID())
		if got := flowtest.Result(w, again); got != "<a>" || again.Created() {
			t.Errorf("by run id: got %q, created %v", got, again.Created())
		}
	})
}

func TestRUN1_GeneratedWorkflowsOfEveryShapeComplete(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, func(r workflow.Registrar) { workflows.Register(r) })
	if got, err := workflows.Transfer.Execute(w.Ctx, w.Client, workflows.TransferInput{From: "a", To: "b", Cents: 7}); got != 7 || err != nil {
		t.Errorf("several inputs: got %d, %v", got, err)
	}
	if _, err := workflows.Nightly.Execute(w.Ctx, w.Client, workflow.None{}); err != nil {
		t.Errorf("no input, no result: %v", err)
	}
	if _, err := workflows.Archive.Execute(w.Ctx, w.Client, 30); err != nil {
		t.Errorf("input only: %v", err)
	}
	if got, err := workflows.Fulfil.Execute(w.Ctx, w.Client, workflows.Order{ID: "1"}); err != nil || got.IsZero() {
		t.Errorf("input and result: got %v, %v", got, err)
	}
}

func TestRUN1_AHandleOfAnotherWorkflowsRunIsATypedError(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Runs)
	run := flowtest.Start(w, flowtest.Echo, "a")
	_ = flowtest.Result(w, run)
	_, err := flowtest.Parker.Get(w.Client, run.ID()).Result(w.Ctx)
	if !errors.Is(err, workflow.ErrWrongWorkflow) || !flowtest.ContainsAll(err.Error(), "test.echo", "test.parker") {
		t.Errorf("got %v", err)
	}
}

func TestRUN2_FiftyConcurrentStartersGetOneRun(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Parks)
		var created atomic.Int32
		var ids sync.Map
		var starters sync.WaitGroup
		for range 50 {
			starters.Go(func() {
				run, err := flowtest.Parker.Start(w.Ctx, w.Client, "x", workflow.WithID("order-1"))
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
		if err := flowtest.Wake.Send(w.Ctx, w.Client.RunByID("order-1"), "up"); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, flowtest.Parker.GetByID(w.Client, "order-1")); got != "up" {
			t.Errorf("got %q", got)
		}
	})
}

func TestRUN2_AnActiveIdFailsWithTheActiveRunIfAskedTo(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Parks)
		first := flowtest.Start(w, flowtest.Parker, "x", workflow.WithID("id"))
		_, err := flowtest.Parker.Start(w.Ctx, w.Client, "y", workflow.WithID("id"), workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.FailActive}))
		var active *workflow.ActiveRunError
		if !errors.As(err, &active) || active.Run != first.ID() || active.WorkflowID != "id" {
			t.Errorf("got %v, want an *ActiveRunError with run %s", err, first.ID())
		}
	})
}

func TestRUN2_CancelActiveStartsWhenTheOtherHasEnded(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Parks)
		policy := workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.CancelActive})
		first := flowtest.Start(w, flowtest.Parker, "x", workflow.WithID("id"), policy)
		w.Reach(first, event.WaitCreated, 1)
		second := flowtest.Start(w, flowtest.Parker, "y", workflow.WithID("id"), policy)
		if !second.Created() || second.ID() == first.ID() {
			t.Fatalf("the second start created %v, run %s", second.Created(), second.ID())
		}
		if err := flowtest.Failure(w, first); err.Status != workflow.StatusCanceled {
			t.Errorf("the first run is %s, want cancelled", err.Status)
		}
		started := w.Reach(second, event.RunStarted, 1)
		if end := w.Log(first); started.Time.Before(end[len(end)-1].Time) {
			t.Errorf("the second run started at %v, the first ended at %v", started.Time, end[len(end)-1].Time)
		}
		if err := flowtest.Wake.Send(w.Ctx, second, "up"); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, second); got != "up" {
			t.Errorf("got %q", got)
		}
	})
}

func TestRUN2_FinishedIdsAreAllowedAllowedAfterFailureOrRejected(t *testing.T) {
	either := flowtest.Flow[bool, string]("either")
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.As(either, func(_ workflow.Context, ok bool) (string, error) {
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
			first := flowtest.Start(w, either, c.ok, with(id, c.policy)...)
			_, _ = first.Result(w.Ctx)
			_, err := either.Start(w.Ctx, w.Client, c.ok, with(id, c.policy)...)
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
	info := flowtest.Flow[workflow.None, workflow.Identity]("info")
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{Queues: []string{"bulk"}}, flowtest.As(info, func(ctx workflow.Context, _ workflow.None) (workflow.Identity, error) {
		return workflow.Info(ctx), nil
	}))
	run := flowtest.Start(w, info, workflow.None{}, workflow.WithID("o-1"), workflow.WithQueue("bulk"),
		workflow.WithTags(map[string]string{"a": "1"}), workflow.WithTags(map[string]string{"b": "2"}))
	got := flowtest.Result(w, run)
	outside, err := run.Info(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := workflow.Identity{
		ID: run.ID(), WorkflowID: "o-1", Workflow: "test.info", Queue: "bulk", Tags: map[string]string{"a": "1", "b": "2"},
		Root: run.ID(), CreatedAt: outside.CreatedAt,
	}
	if got.CreatedAt.After(outside.CreatedAt) { // the first event may be older than the record, but not newer
		t.Errorf("inside it was created at %v, after %v", got.CreatedAt, outside.CreatedAt)
	}
	got.CreatedAt = outside.CreatedAt
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("inside (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, outside.Identity); diff != "" {
		t.Errorf("outside (-want +got):\n%s", diff)
	}
}

func TestRUN3_ADelayedRunStartsWhenItsTimeHasCome(t *testing.T) {
	w := flowtest.NewVirtual(t)
	w.Work(worker.Config{}, flowtest.Runs)
	begun := w.Clock.Now()
	late := flowtest.Start(w, flowtest.Echo, "late", workflow.WithDelay(3*time.Hour))
	later := flowtest.Start(w, flowtest.Echo, "later", workflow.WithStartAt(begun.Add(5*time.Hour)))
	past := flowtest.Start(w, flowtest.Echo, "past", workflow.WithStartAt(begun.Add(-time.Hour)))
	if got := flowtest.Result(w, past); got != "<past>" {
		t.Errorf("got %q", got)
	}
	for run, want := range map[*workflow.Run[string]]time.Duration{late: 3 * time.Hour, later: 5 * time.Hour} {
		if info, err := run.Info(w.Ctx); err != nil || info.Status != workflow.StatusPending || info.Due.Sub(begun) != want {
			t.Errorf("before its time: %v, %v, %v", info.Status, info.Due.Sub(begun), err)
		}
	}
	w.Clock.Advance(3 * time.Hour)
	_ = flowtest.Result(w, late)
	w.Clock.Advance(2 * time.Hour)
	_ = flowtest.Result(w, later)
	for run, want := range map[*workflow.Run[string]]time.Duration{late: 3 * time.Hour, later: 5 * time.Hour} {
		if e := flowtest.Filter(w.Log(run), event.RunStarted)[0]; !flowtest.Exactly(e.Time.Sub(begun), want) {
			t.Errorf("started after %v, want %v", e.Time.Sub(begun), want)
		}
	}
}

func TestRUN3_HigherPriorityIsClaimedFirst(t *testing.T) {
	flowtest.OnPartitions(t, 1, func(t *testing.T, w *flowtest.World) {
		var order flowtest.Seen[string]
		var started []*workflow.Run[string]
		for _, p := range []int{1, 3, -2, 2, 0} {
			started = append(started, flowtest.Start(w, flowtest.Echo, fmt.Sprint("p", p), workflow.WithPriority(p)))
		}
		w.Work(worker.Config{Runs: 1}, flowtest.As(flowtest.Echo, func(_ workflow.Context, in string) (string, error) {
			order.Add(in)
			return in, nil
		}))
		for _, run := range started {
			_ = flowtest.Result(w, run)
		}
		if diff := cmp.Diff([]string{"p3", "p2", "p1", "p0", "p-2"}, order.Get()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestRUN3_WrongOptionsSendNothing(t *testing.T) {
	w := flowtest.NewMemory(t)
	for name, o := range map[string]workflow.StartOption{
		"negative delay": workflow.WithDelay(-time.Second), "no timeout": workflow.WithRunTimeout(0), "no time to begin": workflow.WithStartBy(0),
	} {
		if run, err := flowtest.Echo.Start(w.Ctx, w.Client, "x", o); err == nil {
			t.Errorf("%s: started run %s", name, run.ID())
		}
	}
	if n, err := w.Client.Count(w.Ctx, workflow.Filter{}); err != nil || n.Total() != 0 {
		t.Errorf("got runs %v, %v", n, err)
	}
}

func TestRUN14_StartManyJudgesEachRunByItself(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Runs)
	once := workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.FailActive, Finished: workflow.RejectFinished})
	started, err := flowtest.Echo.StartMany(w.Ctx, w.Client, []workflow.StartRequest[string]{
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
	if got := []string{flowtest.Result(w, started[0].Run), flowtest.Result(w, started[2].Run)}; !slices.Equal(got, []string{"<a>", "<c>"}) {
		t.Errorf("got %v", got)
	}
}

func TestRUN14_StartManyAsksTheStoreOnceForAllRuns(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		const n = 500
		counted := &flowtest.Between{Store: w.Store}
		client := flowtest.NewClient(counted, workflow.ClientConfig{})
		defer client.Close()
		requests := make([]workflow.StartRequest[string], n)
		for i := range requests {
			requests[i].Options = []workflow.StartOption{workflow.WithID(fmt.Sprint("id ", i))}
		}
		for _, round := range []struct {
			created bool
			want    map[string]int
		}{{true, map[string]int{"create": 1}}, {false, map[string]int{"create": 1, "load": 1}}} {
			before := counted.Tally()
			started, err := flowtest.Echo.StartMany(w.Ctx, client, requests)
			if err != nil {
				t.Fatal(err)
			}
			for i, s := range started {
				if s.Err != nil || s.Run.Created() != round.created {
					t.Fatalf("start %d: %v, created %t, want %t", i, s.Err, s.Run != nil && s.Run.Created(), round.created)
				}
			}
			got := counted.Tally()
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

// counting is a store that counts requests.
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
