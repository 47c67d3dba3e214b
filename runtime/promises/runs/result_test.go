package runs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestRUN4_ResultIsWokenByTheStoreAndDoesNotPoll(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Parks)
	watched := &counting{Store: w.Store}
	client := flowtest.NewClient(watched, workflow.ClientConfig{})
	run := flowtest.Start(w, flowtest.Parker, "x")
	w.Reach(run, event.WaitCreated, 1)
	got := make(chan string)
	go func() {
		v, err := flowtest.Parker.Get(client, run.ID()).Result(w.Ctx)
		got <- v
		if err != nil {
			t.Error(err)
		}
	}()
	w.Eventually("somebody watches the run", func() bool { return watched.watches.Load() == 1 })
	if err := flowtest.Wake.Send(w.Ctx, run, "up"); err != nil {
		t.Fatal(err)
	}
	if v := <-got; v != "up" {
		t.Errorf("got %q", v)
	}
	// There is one read at the beginning, one after each commit that wakes the caller, and one for
	// the last event.
	if n := watched.loads.Load(); n > 4 {
		t.Errorf("the store was read %d times, want at most 4", n)
	}
}

func TestRUN4_ManyWaitersGetTheSameResult(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Parks)
		run := flowtest.Start(w, flowtest.Parker, "x")
		got := make(chan string, 30)
		for range cap(got) {
			go func() {
				v, err := run.Result(w.Ctx)
				if err != nil {
					t.Error(err)
				}
				got <- v
			}()
		}
		if err := flowtest.Wake.Send(w.Ctx, run, "up"); err != nil {
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
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		missing := flowtest.Echo.Get(w.Client, event.NewRunID(w.Store.Clock().Now(), event.RandomSlot()))
		unknown := flowtest.Echo.GetByID(w.Client, "never-started")
		for name, run := range map[string]*workflow.Run[string]{"run id": missing, "workflow id": unknown} {
			_, result := run.Result(w.Ctx)
			_, info := run.Info(w.Ctx)
			var follow error
			for _, err := range run.Events(w.Ctx) {
				follow = err
			}
			for op, err := range map[string]error{
				"Result": result, "Info": info, "Events": follow, "Cancel": run.Cancel(w.Ctx, "x"), "Send": flowtest.Wake.Send(w.Ctx, run, "x"),
			} {
				if !errors.Is(err, workflow.ErrRunNotFound) {
					t.Errorf("%s by %s: got %v, want ErrRunNotFound", op, name, err)
				}
			}
		}
	})
}

func TestRUN4_AWorkflowIdInPlaceOfARunIdSaysWhatToUse(t *testing.T) {
	w := flowtest.NewMemory(t)
	_, err := flowtest.Echo.Get(w.Client, "order-42").Result(w.Ctx)
	if err == nil || !flowtest.ContainsAll(err.Error(), "order-42", "GetByID") {
		t.Errorf("got %v", err)
	}
}

func TestRUN4_AWaitEndsWithItsContext(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		run := flowtest.Start(w, flowtest.Parker, "x") // no worker serves the run
		ctx, cancel := context.WithCancel(w.Ctx)
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
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Parks)
		by := flowtest.Parker.GetByID(w.Client, "id")
		for _, want := range []string{"one", "two"} {
			run := flowtest.Start(w, flowtest.Parker, "x", workflow.WithID("id"))
			if info, err := by.Info(w.Ctx); err != nil || info.ID != run.ID() {
				t.Errorf("active: got %s, %v, want %s", info.ID, err, run.ID())
			}
			if err := flowtest.Wake.Send(w.Ctx, by, want); err != nil {
				t.Fatal(err)
			}
			if got := flowtest.Result(w, by); got != want {
				t.Errorf("latest: got %q, want %q", got, want)
			}
		}
	})
}

func TestRUN4_AClosedClientFailsEveryCall(t *testing.T) {
	w := flowtest.NewMemory(t)
	run := flowtest.Start(w, flowtest.Echo, "x")
	client := flowtest.NewClient(w.Store, workflow.ClientConfig{})
	run = flowtest.Echo.Get(client, run.ID())
	if err := client.Close(); err != nil {
		t.Fatal(err)
	}
	_, begin := flowtest.Echo.Start(w.Ctx, client, "x")
	_, result := run.Result(w.Ctx)
	_, info := run.Info(w.Ctx)
	_, count := client.Count(w.Ctx, workflow.Filter{})
	var follow, list error
	for _, err := range run.Events(w.Ctx) {
		follow = err
	}
	for _, err := range client.List(w.Ctx, workflow.Filter{}) {
		list = err
	}
	for op, err := range map[string]error{
		"Start": begin, "Result": result, "Info": info, "Count": count, "Events": follow, "List": list,
		"Cancel": run.Cancel(w.Ctx, ""), "Send": flowtest.Wake.Send(w.Ctx, run, "x"),
	} {
		if !errors.Is(err, workflow.ErrClientClosed) {
			t.Errorf("%s: got %v, want ErrClientClosed", op, err)
		}
	}
}

func TestRUN4_AClosedStoreEndsAWaitingResult(t *testing.T) {
	for name, open := range flowtest.Stores {
		t.Run(name, func(t *testing.T) {
			st := open(t)
			watched := &counting{Store: st}
			w := flowtest.NewWorld(t, watched, workflow.ClientConfig{})
			run := flowtest.Start(w, flowtest.Echo, "x")
			got := make(chan error)
			go func() {
				_, err := run.Result(w.Ctx)
				got <- err
			}()
			w.Eventually("somebody watches the run", func() bool { return watched.watches.Load() > 0 })
			if err := st.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-got; !errors.Is(err, store.ErrClosed) {
				t.Errorf("waiting: got %v, want store.ErrClosed", err)
			}
			if _, err := flowtest.Echo.Start(w.Ctx, w.Client, "x"); !errors.Is(err, store.ErrClosed) {
				t.Errorf("starting: got %v, want store.ErrClosed", err)
			}
		})
	}
}
