package worker_test

import (
	"context"
	"errors"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestRUN4_ResultIsWokenByTheStoreAndDoesNotPoll(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, parks)
	watched := &counting{Store: w.store}
	client := workflow.NewClient(watched, workflow.ClientConfig{})
	run := start(w, parker, "x")
	w.reach(run, event.WaitCreated, 1)
	got := make(chan string)
	go func() {
		v, err := parker.Get(client, run.ID()).Result(w.ctx)
		got <- v
		if err != nil {
			t.Error(err)
		}
	}()
	w.eventually("somebody watches the run", func() bool { return watched.watches.Load() == 1 })
	if err := wake.Send(w.ctx, run, "up"); err != nil {
		t.Fatal(err)
	}
	if v := <-got; v != "up" {
		t.Errorf("got %q", v)
	}
	// One look before, one after each commit that woke it, one for the last event.
	if n := watched.loads.Load(); n > 4 {
		t.Errorf("the store was read %d times, want at most 4", n)
	}
}

func TestRUN4_ManyWaitersGetTheSameResult(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, parks)
		run := start(w, parker, "x")
		got := make(chan string, 30)
		for range cap(got) {
			go func() {
				v, err := run.Result(w.ctx)
				if err != nil {
					t.Error(err)
				}
				got <- v
			}()
		}
		if err := wake.Send(w.ctx, run, "up"); err != nil {
			t.Fatal(err)
		}
		for range cap(got) {
			if v := <-got; v != "up" {
				t.Errorf("got %q", v)
			}
		}
	})
}

func TestRUN4_AMissingRunIsAnErrorNotAHang(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		missing := echo.Get(w.client, event.NewRunID(w.store.Clock().Now(), event.RandomSlot()))
		unknown := echo.GetByID(w.client, "never-started")
		for name, run := range map[string]*workflow.Run[string]{"run id": missing, "workflow id": unknown} {
			_, result := run.Result(w.ctx)
			_, info := run.Info(w.ctx)
			var follow error
			for _, err := range run.Events(w.ctx) {
				follow = err
			}
			for op, err := range map[string]error{
				"Result": result, "Info": info, "Events": follow, "Cancel": run.Cancel(w.ctx, "x"), "Send": wake.Send(w.ctx, run, "x"),
			} {
				if !errors.Is(err, workflow.ErrRunNotFound) {
					t.Errorf("%s by %s: got %v, want ErrRunNotFound", op, name, err)
				}
			}
		}
	})
}

func TestRUN4_AWorkflowIdInPlaceOfARunIdSaysWhatToUse(t *testing.T) {
	w := newMemory(t)
	_, err := echo.Get(w.client, "order-42").Result(w.ctx)
	if err == nil || !containsAll(err.Error(), "order-42", "GetByID") {
		t.Errorf("got %v", err)
	}
}

func TestRUN4_AWaitEndsWithItsContext(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		run := start(w, parker, "x") // nobody works on it
		ctx, cancel := context.WithCancel(w.ctx)
		got := make(chan error)
		go func() {
			_, err := run.Result(ctx)
			got <- err
		}()
		cancel()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestRUN4_GetByIDFindsTheActiveRunElseTheLatest(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, parks)
		by := parker.GetByID(w.client, "id")
		for _, want := range []string{"one", "two"} {
			run := start(w, parker, "x", workflow.WithID("id"))
			if info, err := by.Info(w.ctx); err != nil || info.ID != run.ID() {
				t.Errorf("active: got %s, %v, want %s", info.ID, err, run.ID())
			}
			if err := wake.Send(w.ctx, by, want); err != nil {
				t.Fatal(err)
			}
			if got := result(w, by); got != want {
				t.Errorf("latest: got %q, want %q", got, want)
			}
		}
	})
}

func TestRUN4_AClosedClientFailsEveryCall(t *testing.T) {
	w := newMemory(t)
	run := start(w, echo, "x")
	client := workflow.NewClient(w.store, workflow.ClientConfig{})
	run = echo.Get(client, run.ID())
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	_, begin := echo.Start(w.ctx, client, "x")
	_, result := run.Result(w.ctx)
	_, info := run.Info(w.ctx)
	_, count := client.Count(w.ctx, workflow.Filter{})
	var follow, list error
	for _, err := range run.Events(w.ctx) {
		follow = err
	}
	for _, err := range client.List(w.ctx, workflow.Filter{}) {
		list = err
	}
	for op, err := range map[string]error{
		"Start": begin, "Result": result, "Info": info, "Count": count, "Events": follow, "List": list,
		"Cancel": run.Cancel(w.ctx, ""), "Send": wake.Send(w.ctx, run, "x"),
	} {
		if !errors.Is(err, workflow.ErrClientClosed) {
			t.Errorf("%s: got %v, want ErrClientClosed", op, err)
		}
	}
}

func TestRUN4_AClosedStoreEndsAWaitingResult(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			st := open(t)
			watched := &counting{Store: st}
			w := newWorld(t, watched, workflow.ClientConfig{})
			run := start(w, echo, "x")
			got := make(chan error)
			go func() {
				_, err := run.Result(w.ctx)
				got <- err
			}()
			w.eventually("somebody watches the run", func() bool { return watched.watches.Load() > 0 })
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-got; !errors.Is(err, store.ErrClosed) {
				t.Errorf("waiting: got %v, want store.ErrClosed", err)
			}
			if _, err := echo.Start(w.ctx, w.client, "x"); !errors.Is(err, store.ErrClosed) {
				t.Errorf("starting: got %v, want store.ErrClosed", err)
			}
		})
	}
}
