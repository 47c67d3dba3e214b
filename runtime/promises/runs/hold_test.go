package runs_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func types(events []event.Event) []event.Type {
	var all []event.Type
	for _, e := range events {
		all = append(all, e.Type)
	}
	return all
}

func TestRUN9_AHeldRunBeginsWhenItIsReleasedAndItsFollowersMissNothing(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Parks)
		run := flowtest.Start(w, flowtest.Parker, "", workflow.WithHold())
		w.Status(run, workflow.StatusHeld)
		n, err := w.Client.Count(w.Ctx, workflow.Filter{Statuses: []workflow.Status{workflow.StatusHeld}})
		if err != nil || n.ByStatus()[workflow.StatusHeld] != 1 {
			t.Errorf("counted %v, %v", n, err)
		}
		followed := make(chan []event.Type, 1)
		go func() {
			var all []event.Event
			for e, err := range run.Events(w.Ctx) {
				if err != nil {
					t.Errorf("follow: %v", err)
					break
				}
				all = append(all, e)
			}
			followed <- types(all)
		}()
		if err := flowtest.Wake.Send(w.Ctx, run, "early"); err != nil {
			t.Fatal(err)
		}
		w.Reach(run, event.MessageReceived, 1) // a worker has claimed the held run to record the message
		w.Status(run, workflow.StatusHeld)
		for range 2 {
			if err := run.Release(w.Ctx); err != nil {
				t.Fatal(err)
			}
		}
		if got := flowtest.Result(w, run); got != "early" {
			t.Errorf("got %q", got)
		}
		want := []event.Type{event.RunCreated, event.MessageReceived, event.RunReleased, event.RunStarted, event.RunCompleted}
		if diff := cmp.Diff(want, <-followed); diff != "" {
			t.Errorf("followed (-want +got):\n%s", diff)
		}
		if err := run.Release(w.Ctx); err != nil { // repeats a release that was accepted
			t.Errorf("released a third time: %v", err)
		}
	})
}

func TestRUN9_ARunThatIsNotReleasedInTimeFails(t *testing.T) {
	for name, tt := range map[string]struct {
		opt  workflow.StartOption
		time time.Duration
	}{
		"default": {workflow.WithHold(), 5 * time.Minute},
		"set":     {workflow.WithHoldFor(time.Hour), time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewVirtual(t)
			w.Work(worker.Config{}, flowtest.Parks)
			run := flowtest.Start(w, flowtest.Parker, "", tt.opt)
			w.Clock.Advance(tt.time - time.Minute)
			if err := flowtest.Wake.Send(w.Ctx, run, "early"); err != nil {
				t.Fatal(err)
			}
			w.Reach(run, event.MessageReceived, 1)
			if got := len(flowtest.Filter(w.Log(run), event.RunFailed)); got != 0 {
				t.Error("it failed too early")
			}
			w.Clock.Advance(time.Minute)
			err := flowtest.Failure(w, run)
			if err.Code != event.CodeNotReleased || !flowtest.ContainsAll(err.Reason, tt.time.String()) {
				t.Errorf("got %v", err)
			}
			if n := len(flowtest.Filter(w.Log(run), event.RunStarted)); n != 0 {
				t.Error("its code was started")
			}
			if err := run.Release(w.Ctx); !errors.Is(err, workflow.ErrRunTerminal) {
				t.Errorf("released too late: got %v", err)
			}
		})
	}
}

func TestRUN9_AHeldRunCanBeCancelled(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Parks)
	run := flowtest.Start(w, flowtest.Parker, "", workflow.WithHold())
	if err := run.Cancel(w.Ctx, "changed our mind"); err != nil {
		t.Fatal(err)
	}
	if err := flowtest.Failure(w, run); err.Status != workflow.StatusCanceled {
		t.Errorf("got %v", err)
	}
}

func TestRUN9_ReleaseOfARunThatWasNotHeldIsRefused(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Parks)
	run := flowtest.Start(w, flowtest.Parker, "")
	w.Reach(run, event.WaitCreated, 1)
	var refused *workflow.StatusError
	if err := run.Release(w.Ctx); !errors.As(err, &refused) || !strings.Contains(refused.Fix, "WithHold") {
		t.Errorf("release: got %v, want a *StatusError that names WithHold", err)
	}
	if err := flowtest.Wake.Send(w.Ctx, run, "x"); err != nil {
		t.Fatal(err)
	}
	if got := flowtest.Result(w, run); got != "x" || len(flowtest.Filter(w.Log(run), event.RunReleased)) != 0 {
		t.Errorf("got %q, log %v", got, types(w.Log(run)))
	}
}

func TestRUN3_HoldIsRefusedTogetherWithALaterStart(t *testing.T) {
	w := flowtest.NewMemory(t)
	for _, opts := range [][]workflow.StartOption{
		{workflow.WithHold(), workflow.WithDelay(time.Hour)},
		{workflow.WithHold(), workflow.WithStartAt(time.Now())},
		{workflow.WithHoldFor(0)},
	} {
		if _, err := flowtest.Parker.Start(w.Ctx, w.Client, "", opts...); err == nil || !flowtest.ContainsAll(err.Error(), "WithHold") {
			t.Errorf("got %v", err)
		}
	}
}

func TestRUN3_AMessageDoesNotStartARunBeforeItsTime(t *testing.T) {
	for name, opt := range map[string]func(now time.Time) workflow.StartOption{
		"delay": func(time.Time) workflow.StartOption { return workflow.WithDelay(time.Hour) },
		"at":    func(now time.Time) workflow.StartOption { return workflow.WithStartAt(now.Add(time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewVirtual(t)
			w.Work(worker.Config{}, flowtest.Parks)
			run := flowtest.Start(w, flowtest.Parker, "", opt(w.Clock.Now()))
			if err := flowtest.Wake.Send(w.Ctx, run, "early"); err != nil {
				t.Fatal(err)
			}
			w.Reach(run, event.MessageReceived, 1)
			w.Clock.Advance(59 * time.Minute)
			w.Eventually("it waits for its time", func() bool {
				info, err := run.Info(w.Ctx)
				return err != nil || !info.Due.IsZero()
			})
			if n := len(flowtest.Filter(w.Log(run), event.RunStarted)); n != 0 {
				t.Error("it was started too early")
			}
			w.Clock.Advance(time.Minute)
			if got := flowtest.Result(w, run); got != "early" {
				t.Errorf("got %q", got)
			}
		})
	}
}
