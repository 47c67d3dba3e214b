package worker_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// A program that no longer pins runs continues the runs that an earlier version of it has pinned, to
// the build of its workers and to a build that has left.
func TestOPS10_AWorkerThatPinsNothingContinuesPinnedRuns(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		runs := []*workflow.Run[string]{echoPinned(w, "now"), echoPinned(w, "gone")}
		w.Work(worker.Config{Build: "now", Heartbeat: 50 * time.Millisecond}, flowtest.Echoes, flowtest.MovesEvery(20*time.Millisecond), flowtest.ProbeEvery(100*time.Millisecond))
		for _, run := range runs {
			if got := flowtest.Result(w, run); got != "x" {
				t.Errorf("run %s: got %q", run.ID(), got)
			}
		}
		w.Healthy()
	})
}

// echoPinned creates a run of Echo that is pinned to a build.
func echoPinned(w *flowtest.World, pin string) *workflow.Run[string] {
	w.T.Helper()
	spec := &event.Spec{Workflow: flowtest.Echo.Name(), Queue: workflow.DefaultQueue, Pin: pin}
	at := w.Store.Clock().Now()
	c := store.Create{
		Run: event.NewRunID(at, event.RandomSlot()), Route: store.Route{Queue: spec.RouteQueue(), Workflow: spec.Workflow}, CommitID: event.NewCommitID(), Seq: 1,
	}
	var err error
	c.Frame, err = event.AppendFrame(nil, &event.Frame{CommitID: c.CommitID, Time: at, Events: []event.Event{
		{Seq: 1, Type: event.RunCreated, Time: at.UTC().Truncate(time.Millisecond), Spec: spec, Payload: []byte(`{"in":"x"}`)},
	}})
	flowtest.Order(w.T, err)
	created, err := w.Store.Create(w.Ctx, []store.Create{c})
	flowtest.Order(w.T, err)
	flowtest.Order(w.T, created[0].Err)
	return flowtest.Echo.Get(w.Client, c.Run)
}

// The workers of the store register neither the workflow nor the build.
func TestOPS10_TheWarningAboutAnUnservedPinnedRunNamesItsBuild(t *testing.T) {
	flowtest.OnVirtualTime(t, func(t *testing.T, w *flowtest.World, _ *flowtest.Purges) {
		echoPinned(w, "gone")
		w.Work(worker.Config{Heartbeat: time.Minute, ClaimExpiry: 80_000 * time.Hour}, flowtest.Calls)
		const message = "a run waits for a worker, but no worker serves it"
		w.Eventually("the warning is logged", func() bool {
			w.Clock.Advance(time.Minute)
			return len(w.Lines(message)) > 0
		})
		if line := w.Lines(message)[0]; !flowtest.ContainsAll(line, "queue=default", "pinned=gone", "flowctl deploys retire gone") {
			t.Errorf("got %s", line)
		}
	})
}

// A route that a session has and its worker does not claim from would count as served.
func TestOPS10_AWorkerThatPinsNothingRepeatsTheAnnouncementOfItsRoutes(t *testing.T) {
	w := flowtest.NewMemory(t)
	gone := store.Route{Queue: event.PinnedQueue(workflow.DefaultQueue, "gone"), Workflow: flowtest.Echo.Name()}
	var added, failed atomic.Bool
	between := &flowtest.Between{Store: w.Store, Around: func(_ context.Context, _ string, req any, do func() error) error {
		if s, ok := req.(store.Session); ok {
			switch {
			case slices.Contains(s.Routes, gone):
				added.Store(true)
			case added.Load() && !failed.Swap(true):
				return errors.New("the store does not answer")
			}
		}
		return do()
	}}
	w.WorkOn(between, worker.Config{Build: "now", Heartbeat: 50 * time.Millisecond}, flowtest.Echoes, flowtest.MovesEvery(20*time.Millisecond), flowtest.ProbeEvery(100*time.Millisecond))
	flowtest.Result(w, echoPinned(w, "gone"))
	teller, _ := store.As[store.FleetTeller](w.Store)
	w.Eventually("the session leaves the route", func() bool {
		fleet, err := teller.Fleet(w.Ctx)
		flowtest.Order(t, err)
		return failed.Load() && !slices.ContainsFunc(fleet.Sessions, func(s store.FleetSession) bool { return slices.Contains(s.Routes, gone) })
	})
}
