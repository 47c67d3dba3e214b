package worker_test

import (
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
		var runs []*workflow.Run[string]
		for _, pin := range []string{"now", "gone"} {
			spec := &event.Spec{Workflow: flowtest.Echo.Name(), Queue: workflow.DefaultQueue, Pin: pin}
			at := w.Store.Clock().Now()
			c := store.Create{
				Run: event.NewRunID(at, event.RandomSlot()), Route: store.Route{Queue: spec.RouteQueue(), Workflow: spec.Workflow}, CommitID: event.NewCommitID(), Seq: 1,
			}
			var err error
			c.Frame, err = event.AppendFrame(nil, &event.Frame{CommitID: c.CommitID, Time: at, Events: []event.Event{
				{Seq: 1, Type: event.RunCreated, Time: at.UTC().Truncate(time.Millisecond), Spec: spec, Payload: []byte(`{"in":"x"}`)},
			}})
			flowtest.Order(t, err)
			created, err := w.Store.Create(w.Ctx, []store.Create{c})
			flowtest.Order(t, err)
			flowtest.Order(t, created[0].Err)
			runs = append(runs, flowtest.Echo.Get(w.Client, c.Run))
		}
		w.Work(worker.Config{Build: "now", Heartbeat: 50 * time.Millisecond}, flowtest.Echoes, flowtest.MovesEvery(20*time.Millisecond), flowtest.ProbeEvery(100*time.Millisecond))
		for _, run := range runs {
			if got := flowtest.Result(w, run); got != "x" {
				t.Errorf("run %s: got %q", run.ID(), got)
			}
		}
		w.Healthy()
	})
}
