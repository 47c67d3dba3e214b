package runs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestRUN13_DeleteForgetsOneRunAtOnce(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Echoes)
		run, other := flowtest.Start(w, flowtest.Echo, "x", workflow.WithID("order-1")), flowtest.Start(w, flowtest.Echo, "y")
		flowtest.Result(w, run)
		flowtest.Result(w, other)
		for range 2 { // the second delete has no effect
			if err := ops.New(w.Client).Delete(w.Ctx, run.ID()); err != nil {
				t.Fatal(err)
			}
		}
		var follow error
		for _, err := range run.Events(w.Ctx) {
			follow = err
		}
		_, result := run.Result(w.Ctx)
		_, info := run.Info(w.Ctx)
		_, byID := flowtest.Echo.GetByID(w.Client, "order-1").Info(w.Ctx)
		for op, err := range map[string]error{
			"Result": result, "Info": info, "GetByID": byID, "Events": follow,
			"Cancel": run.Cancel(w.Ctx, "x"), "Send": flowtest.Wake.Send(w.Ctx, run, "x"),
		} {
			if !errors.Is(err, workflow.ErrRunNotFound) {
				t.Errorf("%s: got %v, want ErrRunNotFound", op, err)
			}
		}
		if diff := cmp.Diff(map[workflow.RunID]bool{other.ID(): true}, w.Kept()); diff != "" {
			t.Errorf("runs that are left (-want +got)\n%s", diff)
		}
		w.Snapshot()
		again := flowtest.Start(w, flowtest.Echo, "x", workflow.WithID("order-1"), workflow.WithIDPolicy(workflow.IDPolicy{Finished: workflow.RejectFinished}))
		if !again.Created() {
			t.Error("the workflow id remembers the deleted run")
		}
	})
}

func TestRUN13_ADeletedRunIsPurgedWithinMinutes(t *testing.T) {
	flowtest.OnVirtualTime(t, func(t *testing.T, w *flowtest.World, p *flowtest.Purges) {
		w.Work(worker.Config{}, flowtest.Echoes)
		run := flowtest.Start(w, flowtest.Echo, "x")
		flowtest.Result(w, run)
		if err := ops.New(w.Client).Delete(w.Ctx, run.ID()); err != nil {
			t.Fatal(err)
		}
		w.Look(p)
		if len(w.Snapshot().Runs) != 1 {
			t.Error("the run was purged while somebody may still send to it")
		}
		w.Look(p)
		w.Look(p)
		if left := w.Snapshot(); len(left.Runs)+len(left.Purges) > 0 {
			t.Errorf("left behind: %v", left.Runs)
		}
	})
}

func TestRUN13_DeleteOfARunThatHasNotEndedIsRefused(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Parks)
		run := flowtest.Start(w, flowtest.Parker, "x", workflow.WithID("order-1"))
		w.Reach(run, event.WaitCreated, 1)
		err := ops.New(w.Client).Delete(w.Ctx, run.ID())
		refused, ok := errors.AsType[*workflow.StatusError](err)
		if !ok || refused.Run != run.ID() || refused.Status.Terminal() || !flowtest.ContainsAll(err.Error(), string(run.ID()), "has not ended") {
			t.Errorf("delete: got %v, want a *StatusError of the run", err)
		}
		if err := flowtest.Wake.Send(w.Ctx, run, "up"); err != nil {
			t.Fatal(err)
		}
		if got := flowtest.Result(w, run); got != "up" {
			t.Errorf("result: got %q", got)
		}
	})
}

func TestRUN13_DeleteOfAMissingRunIsNotFound(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		missing := event.NewRunID(w.Store.Clock().Now(), event.RandomSlot())
		if err := ops.New(w.Client).Delete(w.Ctx, missing); !errors.Is(err, workflow.ErrRunNotFound) {
			t.Errorf("delete: got %v, want ErrRunNotFound", err)
		}
		if err := ops.New(w.Client).Delete(w.Ctx, "order-1"); err == nil || !flowtest.ContainsAll(err.Error(), "RunByID") {
			t.Errorf("delete by a workflow id in place of a run id: got %v", err)
		}
	})
}

func TestRUN13_DeleteByFilterForgetsWhatMatchesAndHasEnded(t *testing.T) {
	red, blue := workflow.WithTags(map[string]string{"color": "red"}), workflow.WithTags(map[string]string{"color": "blue"})
	for name, tt := range map[string]struct {
		filter workflow.Filter
		want   []string // inputs of the deleted runs
	}{
		"everything":            {workflow.Filter{}, []string{"red", "blue", "", ""}},
		"a tag":                 {workflow.Filter{Tags: map[string]string{"color": "red"}}, []string{"red", ""}},
		"a status":              {workflow.Filter{Statuses: []workflow.Status{workflow.StatusFailed}}, []string{"", ""}},
		"a status and a tag":    {workflow.Filter{Statuses: []workflow.Status{workflow.StatusFailed}, Tags: map[string]string{"color": "blue"}}, []string{""}},
		"an end and the others": {workflow.Filter{Statuses: []workflow.Status{workflow.StatusWaiting, workflow.StatusCompleted}}, []string{"red", "blue"}},
		"no end":                {workflow.Filter{Statuses: []workflow.Status{workflow.StatusWaiting, workflow.StatusRunning}}, nil},
		"another workflow":      {workflow.Filter{Workflow: "test.parker"}, nil},
		"nothing":               {workflow.Filter{Queue: "nobody's"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
				w.Work(worker.Config{}, flowtest.Echoes, flowtest.Parks)
				living := flowtest.Start(w, flowtest.Parker, "x", red)
				w.Reach(living, event.WaitCreated, 1)
				inputs := map[workflow.RunID]string{}
				for _, color := range []workflow.StartOption{red, blue} {
					failed := flowtest.Start(w, flowtest.Echo, "", color)
					flowtest.Failure(w, failed)
					inputs[failed.ID()] = ""
				}
				inputs[flowtest.Ended(w, "red", red)], inputs[flowtest.Ended(w, "blue", blue)] = "red", "blue"

				n, err := ops.New(w.Client).DeleteMany(w.Ctx, tt.filter)
				if err != nil || n != len(tt.want) {
					t.Errorf("delete: got %d, %v, want %d", n, err, len(tt.want))
				}
				kept := w.Kept()
				if !kept[living.ID()] {
					t.Error("a run that has not ended is gone")
				}
				var gone []string
				for id, input := range inputs {
					if !kept[id] {
						gone = append(gone, input)
					}
				}
				if diff := cmp.Diff(slices.Sorted(slices.Values(tt.want)), slices.Sorted(slices.Values(gone))); diff != "" {
					t.Errorf("runs that are gone (-want +got)\n%s", diff)
				}
				w.Snapshot()
			})
		})
	}
}

func TestRUN13_DeleteByFilterHasNoCap(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Echoes)
		const runs = 230 // several pages
		var requests []workflow.StartRequest[string]
		for n := range runs {
			requests = append(requests, workflow.StartRequest[string]{Input: fmt.Sprint("x", n)})
		}
		started, err := flowtest.Echo.StartMany(w.Ctx, w.Client, requests)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range started {
			flowtest.Result(w, s.Run)
		}
		if n, err := ops.New(w.Client).DeleteMany(w.Ctx, workflow.Filter{}); err != nil || n != runs {
			t.Errorf("delete: got %d, %v, want %d", n, err, runs)
		}
		if n, err := ops.New(w.Client).DeleteMany(w.Ctx, workflow.Filter{}); err != nil || n != 0 {
			t.Errorf("delete again: got %d, %v, want none", n, err)
		}
	})
}

func TestRUN13_DeleteSaysHowFarItCame(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Echoes)
	for range 3 {
		flowtest.Ended(w, "x")
	}
	broken := &brokenDelete{Store: w.Store, answers: []error{nil, nil, errors.New("no more of that")}}
	n, err := ops.New(flowtest.NewClient(broken, workflow.ClientConfig{})).DeleteMany(w.Ctx, workflow.Filter{})
	if n != 2 || err == nil || !flowtest.ContainsAll(err.Error(), "delete runs", "no more") {
		t.Errorf("got %d, %v, want 2 and the error of the third", n, err)
	}
	if kept := w.Kept(); len(kept) != 1 {
		t.Errorf("%d runs are left, want 1", len(kept))
	}
}

func TestRUN13_DeleteByFilterPassesOverWhatOthersHaveDeleted(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Echoes)
	for range 4 {
		flowtest.Ended(w, "x")
	}
	raced := &brokenDelete{Store: w.Store, answers: []error{nil, store.ErrRunNotFound, &store.NotEndedError{}, nil}}
	n, err := ops.New(flowtest.NewClient(raced, workflow.ClientConfig{})).DeleteMany(w.Ctx, workflow.Filter{})
	if n != 2 || err != nil {
		t.Errorf("got %d, %v, want 2", n, err)
	}
}

// brokenDelete is a store that returns the next of answers from Delete. If the answer is nil, it
// calls the inner store.
type brokenDelete struct {
	store.Store
	answers []error
}

func (b *brokenDelete) Unwrap() store.Store { return b.Store }

func (b *brokenDelete) Delete(ctx context.Context, run event.RunID) error {
	err := b.answers[0]
	if b.answers = b.answers[1:]; err != nil {
		return err
	}
	inner, _ := store.As[store.Purger](b.Store)
	return inner.Delete(ctx, run)
}

func (b *brokenDelete) Purge(ctx context.Context, partition, limit int) (int, time.Time, error) {
	inner, _ := store.As[store.Purger](b.Store)
	return inner.Purge(ctx, partition, limit)
}

func TestRUN13_AClosedClientDeletesNothing(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Echoes)
	run := flowtest.Ended(w, "x")
	client := flowtest.NewClient(w.Store, workflow.ClientConfig{})
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	_, bulk := ops.New(client).DeleteMany(w.Ctx, workflow.Filter{})
	for op, err := range map[string]error{"one": ops.New(client).Delete(w.Ctx, run), "many": bulk} {
		if !errors.Is(err, workflow.ErrClientClosed) {
			t.Errorf("delete %s: got %v, want ErrClientClosed", op, err)
		}
	}
	if !w.Kept()[run] {
		t.Error("the run is gone")
	}
}

// TestRUN13_ADeletedRunThatWasAskedToEndIsNotFound proves that commands to a deleted run return
// ErrRunNotFound, even if they repeat a command that the run has accepted. The store keeps the IDs
// of accepted items until the purge of the run, so it accepts repeated items.
func TestRUN13_ADeletedRunThatWasAskedToEndIsNotFound(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Parks)
		canceled, terminated := flowtest.Start(w, flowtest.Parker, ""), flowtest.Start(w, flowtest.Parker, "")
		flowtest.Order(t, canceled.Cancel(w.Ctx, "x"))
		flowtest.Order(t, ops.New(w.Client).Terminate(w.Ctx, terminated.ID(), "x"))
		for _, run := range []*workflow.Run[string]{canceled, terminated} {
			if _, err := run.Result(w.Ctx); err == nil {
				t.Fatalf("run %s has a result", run.ID())
			}
			flowtest.Order(t, ops.New(w.Client).Delete(w.Ctx, run.ID()))
		}
		many := ops.New(w.Client).CancelMany(w.Ctx, "y", canceled.ID(), terminated.ID())
		for op, err := range map[string]error{
			"Cancel": canceled.Cancel(w.Ctx, "y"), "Cancel by id": w.Client.Run(canceled.ID()).Cancel(w.Ctx, "y"), "CancelMany": many[0],
			"Terminate": ops.New(w.Client).Terminate(w.Ctx, terminated.ID(), "y"), "Terminate by id": ops.New(w.Client).Terminate(w.Ctx, terminated.ID(), "y"),
			"CancelMany of the terminated one": many[1],
		} {
			if !errors.Is(err, workflow.ErrRunNotFound) {
				t.Errorf("%s: got %v, want ErrRunNotFound", op, err)
			}
		}
	})
}
