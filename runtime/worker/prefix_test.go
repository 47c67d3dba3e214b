package worker_test

import (
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// afterCrash makes a run whose log holds these events and nothing more: what a
// worker leaves behind that dies once it has committed the last of them.
func afterCrash[In, Out any](w *world, d workflow.Definition[In, Out], events []event.Event) *workflow.Run[Out] {
	w.t.Helper()
	run, cid := event.NewRunID(w.store.Clock().Now(), event.RandomSlot()), event.NewCID()
	last := &events[len(events)-1]
	frame, err := event.AppendFrame(nil, &event.Frame{CID: cid, Time: last.Time, Events: slices.Clone(events)})
	if err != nil {
		w.t.Fatal(err)
	}
	created, err := w.store.Create(w.ctx, []store.Create{{
		Run: run, Class: store.Class{Queue: workflow.DefaultQueue, Workflow: d.Name()}, Frame: frame, CID: cid, Seq: last.Seq,
	}})
	if err != nil || created[0].Err != nil {
		w.t.Fatal(err, created)
	}
	return d.Get(w.client, run)
}
