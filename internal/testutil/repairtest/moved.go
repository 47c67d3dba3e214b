package repairtest

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Refuses fails the test unless a rebuild refuses to change runs that have changed since they were
// read.
func (w *World) Refuses() {
	w.T.Helper()
	name := "a name"
	waits := w.Waiting(workflow.WithID(name))
	slot := waits.Run.Slot()
	later := storetest.NewLog(&w.ids, w.Clock, event.NewRunID(w.Clock.Now(), slot), event.Spec{
		Workflow: "another", Queue: "default", Tags: map[string]string{"long": long},
	})
	part := w.examine()[w.Partition(waits.Run)]

	// After the store was read, a message wakes the run, another run gets its workflow ID, and a
	// run is created with an unused ID.
	w.send(waits.Run, "that", "one")
	w.send(waits.Run, "it", "two")
	w.ends(&Scene{Run: waits.Run, Want: waits.Want, Finish: waits.Finish})
	next := w.Created(workflow.WithID(name), workflow.WithDelay(time.Hour))
	if _, err := w.Store.Create(w.Ctx, []store.Create{later.Create()}); err != nil {
		w.T.Fatal(err)
	}
	fresh := w.examine()[w.Partition(next.Run)]
	taken := ""
	for n := 0; taken == ""; n++ {
		id := fmt.Sprint("another name ", n)
		if s := w.Created(workflow.WithID(id), workflow.WithDelay(time.Hour)); w.Partition(s.Run) == w.Partition(next.Run) {
			taken = id
		}
	}
	ended := w.Completed()
	kept := w.examine()[w.Partition(ended.Run)]
	if err := ops.New(w.Client).Delete(w.Ctx, ended.Run); err != nil {
		w.T.Fatal(err)
	}
	before := w.dump()

	gone := kept.Snapshot.Runs[ended.Run].Record
	if done, err := kept.Rebuild(w.Ctx, &store.Rebuild{Run: ended.Run, Record: &gone, Reasons: []store.Reason{store.ReasonWrongRecord}, By: "late"}); done || err != nil {
		w.T.Errorf("rebuild a run that was deleted since: %v, %v", done, err)
	}
	w.refusesChanged(part, waits.Run, later.Run)
	w.refusesContradictions(fresh, next.Run, taken)
	if diff := cmp.Diff(before, w.dump()); diff != "" {
		w.T.Errorf("store (-before +after)\n%s", diff)
	}
}

// refusesChanged fails the test unless rebuilds from part refuse the run waiting, which has changed
// since part was read, the run created, which has been created since, and a run that does not exist.
func (w *World) refusesChanged(part *store.PartitionState, waiting, created event.RunID) {
	w.T.Helper()
	rebuilt := func(run event.RunID) *store.Rebuild {
		rec := part.Snapshot.Runs[waiting].Record
		rec.Run, rec.QueueState, rec.Due = run, store.StateReady, time.Time{}
		return &store.Rebuild{Run: run, Record: &rec, Reasons: []store.Reason{store.ReasonWrongRecord}, By: "late"}
	}
	none := event.NewRunID(w.Clock.Now(), waiting.Slot())
	for what, m := range map[string]*store.Rebuild{
		"a run":      rebuilt(waiting),
		"a stranger": rebuilt(none),
		"a new run":  {Run: created, By: "late"},
		"nothing":    {Run: none, By: "late"},
	} {
		if done, err := part.Rebuild(w.Ctx, m); done || err != nil {
			w.T.Errorf("rebuild %s that is not as it was seen: %v, %v", what, done, err)
		}
	}
}

// refusesContradictions fails the test unless rebuilds of a run refuse records that contradict
// other data of the partition. taken is the workflow ID of another run.
func (w *World) refusesContradictions(fresh *store.PartitionState, run event.RunID, taken string) {
	w.T.Helper()
	rec := fresh.Snapshot.Runs[run].Record
	rec.Fence.Epoch++
	for what, change := range map[string]func(m *store.Rebuild){
		"an item that is not remembered": func(m *store.Rebuild) { m.Confirm = []event.ItemID{"x"} },
		"a record that does not exist": func(m *store.Rebuild) {
			m.Remove = []store.Outgoing{{Send: store.Send{ID: "x", To: run}, From: run, Phase: store.PhaseFresh}}
		},
		"a workflow id that another one has got": func(m *store.Rebuild) { m.Record.WorkflowID = taken },
		"a line without a run before it":         func(m *store.Rebuild) { m.Record.QueueState, m.Record.Due = store.StateQueued, time.Time{} },
	} {
		made := rec
		m := &store.Rebuild{Run: run, Record: &made, Reasons: []store.Reason{store.ReasonWrongRecord}, By: "late"}
		change(m)
		if done, err := fresh.Rebuild(w.Ctx, m); done || err != nil {
			w.T.Errorf("rebuild a run with %s: %v, %v", what, done, err)
		}
	}
}
