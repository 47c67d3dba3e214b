package worker_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var echoes = as(echo, func(_ workflow.Context, in string) (string, error) {
	if in == "" {
		return "", errors.New("nothing to repeat")
	}
	return in, nil
})

func TestRUN13_DeleteForgetsOneRunAtOnce(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, echoes)
		run, other := start(w, echo, "x", workflow.WithID("order-1")), start(w, echo, "y")
		result(w, run)
		result(w, other)
		for range 2 { // the second time does nothing
			if err := run.Delete(w.ctx); err != nil {
				t.Fatal(err)
			}
		}
		var follow error
		for _, err := range run.Events(w.ctx) {
			follow = err
		}
		_, result := run.Result(w.ctx)
		_, info := run.Info(w.ctx)
		_, byID := echo.GetByID(w.client, "order-1").Info(w.ctx)
		for op, err := range map[string]error{
			"Result": result, "Info": info, "GetByID": byID, "Events": follow,
			"Cancel": run.Cancel(w.ctx, "x"), "Send": wake.Send(w.ctx, run, "x"),
			"Delete by workflow id": echo.GetByID(w.client, "order-1").Delete(w.ctx),
		} {
			if !errors.Is(err, workflow.ErrRunNotFound) {
				t.Errorf("%s: got %v, want ErrRunNotFound", op, err)
			}
		}
		if diff := cmp.Diff(map[workflow.RunID]bool{other.ID(): true}, w.kept()); diff != "" {
			t.Errorf("runs that are left (-want +got)\n%s", diff)
		}
		w.snapshot()
		again := start(w, echo, "x", workflow.WithID("order-1"), workflow.WithIDPolicy(workflow.IDPolicy{Finished: workflow.RejectFinished}))
		if !again.Created() {
			t.Error("the workflow id remembers the deleted run")
		}
	})
}

func TestRUN13_ADeletedRunIsPurgedWithinMinutes(t *testing.T) {
	onVirtualTime(t, func(t *testing.T, w *world, p *purges) {
		w.work(worker.Config{}, echoes)
		run := start(w, echo, "x")
		result(w, run)
		if err := run.Delete(w.ctx); err != nil {
			t.Fatal(err)
		}
		w.look(p)
		if len(w.snapshot().Runs) != 1 {
			t.Error("the run was purged while somebody may still send to it")
		}
		w.look(p)
		w.look(p)
		if left := w.snapshot(); len(left.Runs)+len(left.Purges) > 0 {
			t.Errorf("left behind: %v", left.Runs)
		}
	})
}

func TestRUN13_DeleteOfARunThatHasNotEndedIsRefused(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, parks)
		run := start(w, parker, "x", workflow.WithID("order-1"))
		w.reach(run, event.WaitCreated, 1)
		for name, h := range map[string]*workflow.Handle{"run id": run.Handle, "workflow id": w.client.RunByID("order-1")} {
			err := h.Delete(w.ctx)
			refused, ok := errors.AsType[*workflow.StatusError](err)
			if !ok || refused.Run != run.ID() || refused.Status.Terminal() || !containsAll(err.Error(), string(run.ID()), "has not ended") {
				t.Errorf("delete by %s: got %v, want a *StatusError of the run", name, err)
			}
		}
		if err := wake.Send(w.ctx, run, "up"); err != nil {
			t.Fatal(err)
		}
		if got := result(w, run); got != "up" {
			t.Errorf("result: got %q", got)
		}
	})
}

func TestRUN13_DeleteOfAMissingRunIsNotFound(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		missing := w.client.Run(event.NewRunID(w.store.Clock().Now(), event.RandomSlot()))
		for name, h := range map[string]*workflow.Handle{"run id": missing, "workflow id": w.client.RunByID("never")} {
			if err := h.Delete(w.ctx); !errors.Is(err, workflow.ErrRunNotFound) {
				t.Errorf("delete by %s: got %v, want ErrRunNotFound", name, err)
			}
		}
		if err := w.client.Run("order-1").Delete(w.ctx); err == nil || !containsAll(err.Error(), "RunByID") {
			t.Errorf("delete by a workflow id in place of a run id: got %v", err)
		}
	})
}

func TestRUN13_DeleteByFilterForgetsWhatMatchesAndHasEnded(t *testing.T) {
	red, blue := workflow.WithTags(map[string]string{"color": "red"}), workflow.WithTags(map[string]string{"color": "blue"})
	for name, tt := range map[string]struct {
		filter workflow.Filter
		want   []string // inputs of the runs that go
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
			onEachStore(t, func(t *testing.T, w *world) {
				w.work(worker.Config{}, echoes, parks)
				living := start(w, parker, "x", red)
				w.reach(living, event.WaitCreated, 1)
				inputs := map[workflow.RunID]string{}
				for _, color := range []workflow.StartOption{red, blue} {
					failed := start(w, echo, "", color)
					failure(w, failed)
					inputs[failed.ID()] = ""
				}
				inputs[ended(w, "red", red)], inputs[ended(w, "blue", blue)] = "red", "blue"

				n, err := w.client.Delete(w.ctx, tt.filter)
				if err != nil || n != len(tt.want) {
					t.Errorf("delete: got %d, %v, want %d", n, err, len(tt.want))
				}
				kept := w.kept()
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
				w.snapshot()
			})
		})
	}
}

// ended starts a run and waits for its end.
func ended(w *world, in string, opts ...workflow.StartOption) workflow.RunID {
	w.t.Helper()
	run := start(w, echo, in, opts...)
	result(w, run)
	return run.ID()
}

func TestRUN13_DeleteByFilterHasNoCap(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, echoes)
		const runs = 230 // several pages
		var requests []workflow.StartRequest[string]
		for n := range runs {
			requests = append(requests, workflow.StartRequest[string]{Input: fmt.Sprint("x", n)})
		}
		started, err := echo.StartMany(w.ctx, w.client, requests)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range started {
			result(w, s.Run)
		}
		if n, err := w.client.Delete(w.ctx, workflow.Filter{}); err != nil || n != runs {
			t.Errorf("delete: got %d, %v, want %d", n, err, runs)
		}
		if n, err := w.client.Delete(w.ctx, workflow.Filter{}); err != nil || n != 0 {
			t.Errorf("delete again: got %d, %v, want none", n, err)
		}
	})
}

func TestRUN13_DeleteSaysHowFarItCame(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, echoes)
	for range 3 {
		ended(w, "x")
	}
	broken := &brokenDelete{Store: w.store, answers: []error{nil, nil, errors.New("no more of that")}}
	n, err := workflow.NewClient(broken, workflow.ClientConfig{}).Delete(w.ctx, workflow.Filter{})
	if n != 2 || err == nil || !containsAll(err.Error(), "delete runs", "no more") {
		t.Errorf("got %d, %v, want 2 and the error of the third", n, err)
	}
	if kept := w.kept(); len(kept) != 1 {
		t.Errorf("%d runs are left, want 1", len(kept))
	}
}

func TestRUN13_DeleteByFilterPassesOverWhatOthersHaveDeleted(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, echoes)
	for range 4 {
		ended(w, "x")
	}
	raced := &brokenDelete{Store: w.store, answers: []error{nil, store.ErrRunNotFound, &store.NotEndedError{}, nil}}
	n, err := workflow.NewClient(raced, workflow.ClientConfig{}).Delete(w.ctx, workflow.Filter{})
	if n != 2 || err != nil {
		t.Errorf("got %d, %v, want 2", n, err)
	}
}

// brokenDelete is a store that answers Delete in a way of its own; nil: as the
// store inside does.
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
	w := newMemory(t)
	w.work(worker.Config{}, echoes)
	run := ended(w, "x")
	client := workflow.NewClient(w.store, workflow.ClientConfig{})
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	_, bulk := client.Delete(w.ctx, workflow.Filter{})
	for op, err := range map[string]error{"one": client.Run(run).Delete(w.ctx), "many": bulk} {
		if !errors.Is(err, workflow.ErrClientClosed) {
			t.Errorf("delete %s: got %v, want ErrClientClosed", op, err)
		}
	}
	if !w.kept()[run] {
		t.Error("the run is gone")
	}
}
