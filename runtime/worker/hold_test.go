package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// status waits until the run has a status.
func (w *world) status(run follows, want workflow.Status) {
	w.t.Helper()
	var info workflow.RunInfo
	w.eventually("run "+string(run.ID())+" is "+string(want), func() bool {
		var err error
		if info, err = w.client.Run(run.ID()).Info(w.ctx); err != nil {
			w.t.Fatal(err)
		}
		return info.Status == want
	})
}

// record returns what the store keeps beside the log of a run.
func (w *world) record(run follows) store.Record {
	w.t.Helper()
	loaded, err := w.store.Load(w.ctx, []store.Load{{Run: run.ID(), Limit: -1}})
	if err != nil || loaded[0].Err != nil {
		w.t.Fatal(err, loaded)
	}
	return loaded[0].Record
}

func types(events []event.Event) []event.Type {
	var all []event.Type
	for _, e := range events {
		all = append(all, e.Type)
	}
	return all
}

func TestRUN9_AHeldRunBeginsWhenItIsReleasedAndItsFollowersMissNothing(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, parks)
		run := start(w, parker, "", workflow.WithHold())
		w.status(run, workflow.StatusHeld)
		n, err := w.client.Count(w.ctx, workflow.Filter{Statuses: []workflow.Status{workflow.StatusHeld}})
		if err != nil || n[workflow.StatusHeld] != 1 {
			t.Errorf("counted %v, %v", n, err)
		}
		followed := make(chan []event.Type, 1)
		go func() {
			var all []event.Event
			for e, err := range run.Events(w.ctx) {
				if err != nil {
					t.Errorf("follow: %v", err)
					break
				}
				all = append(all, e)
			}
			followed <- types(all)
		}()
		if err := wake.Send(w.ctx, run, "early"); err != nil {
			t.Fatal(err)
		}
		w.reach(run, event.MessageReceived, 1) // a worker has had it
		w.status(run, workflow.StatusHeld)
		for range 2 {
			if err := run.Release(w.ctx); err != nil {
				t.Fatal(err)
			}
		}
		if got := result(w, run); got != "early" {
			t.Errorf("got %q", got)
		}
		want := []event.Type{event.RunCreated, event.MessageReceived, event.RunReleased, event.RunStarted, event.RunCompleted}
		if diff := cmp.Diff(want, <-followed); diff != "" {
			t.Errorf("followed (-want +got):\n%s", diff)
		}
		if err := run.Release(w.ctx); err != nil { // it was accepted before
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
			w := newVirtual(t)
			w.work(worker.Config{}, parks)
			run := start(w, parker, "", tt.opt)
			w.clock.Advance(tt.time - time.Minute)
			if err := wake.Send(w.ctx, run, "early"); err != nil {
				t.Fatal(err)
			}
			w.reach(run, event.MessageReceived, 1)
			if got := len(filter(w.log(run), event.RunFailed)); got != 0 {
				t.Error("it failed too early")
			}
			w.clock.Advance(time.Minute)
			err := failure(w, run)
			if err.Code != event.CodeNotReleased || !containsAll(err.Reason, tt.time.String()) {
				t.Errorf("got %v", err)
			}
			if n := len(filter(w.log(run), event.RunStarted)); n != 0 {
				t.Error("its code was started")
			}
			if err := run.Release(w.ctx); !errors.Is(err, workflow.ErrRunTerminal) {
				t.Errorf("released too late: got %v", err)
			}
		})
	}
}

func TestRUN9_AHeldRunCanBeCancelled(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, parks)
	run := start(w, parker, "", workflow.WithHold())
	if err := run.Cancel(w.ctx, "changed our mind"); err != nil {
		t.Fatal(err)
	}
	if err := failure(w, run); err.Status != workflow.StatusCanceled {
		t.Errorf("got %v", err)
	}
}

func TestRUN9_ReleaseOfARunThatWasNotHeldDoesNothing(t *testing.T) {
	w := newMemory(t)
	w.work(worker.Config{}, parks)
	run := start(w, parker, "")
	w.reach(run, event.WaitCreated, 1)
	if err := errors.Join(run.Release(w.ctx), wake.Send(w.ctx, run, "x")); err != nil {
		t.Fatal(err)
	}
	if got := result(w, run); got != "x" || len(filter(w.log(run), event.RunReleased)) != 0 {
		t.Errorf("got %q, log %v", got, types(w.log(run)))
	}
}

func TestRUN3_HoldIsRefusedTogetherWithALaterStart(t *testing.T) {
	w := newMemory(t)
	for _, opts := range [][]workflow.StartOption{
		{workflow.WithHold(), workflow.WithDelay(time.Hour)},
		{workflow.WithHold(), workflow.WithStartAt(time.Now())},
		{workflow.WithHoldFor(0)},
	} {
		if _, err := parker.Start(w.ctx, w.client, "", opts...); err == nil || !containsAll(err.Error(), "WithHold") {
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
			w := newVirtual(t)
			w.work(worker.Config{}, parks)
			run := start(w, parker, "", opt(w.clock.Now()))
			if err := wake.Send(w.ctx, run, "early"); err != nil {
				t.Fatal(err)
			}
			w.reach(run, event.MessageReceived, 1)
			w.clock.Advance(59 * time.Minute)
			w.eventually("it waits for its time", func() bool {
				info, err := run.Info(w.ctx)
				return err != nil || !info.Due.IsZero()
			})
			if n := len(filter(w.log(run), event.RunStarted)); n != 0 {
				t.Error("it was started too early")
			}
			w.clock.Advance(time.Minute)
			if got := result(w, run); got != "early" {
				t.Errorf("got %q", got)
			}
		})
	}
}
