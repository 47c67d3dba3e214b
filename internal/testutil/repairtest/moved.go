package repairtest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Refuses fails the test unless a repair does nothing for scanned runs that have changed since the
// scan.
func (w *World) Refuses() {
	w.T.Helper()
	name := "a name"
	waits := w.Waiting(workflow.WithID(name))
	slot := waits.Run.Slot()
	later := storetest.NewLog(&w.ids, w.Clock, event.NewRunID(w.Clock.Now(), slot), event.Spec{
		Workflow: "another", Queue: "default", Tags: map[string]string{"long": long},
	})
	exam := w.examine()[w.Partition(waits.Run)]
	seen := exam.Snapshot().Runs[waits.Run]

	// A message wakes the run, another run gets its workflow ID, and a run is created under an ID
	// that was unused.
	w.send(waits.Run, "that", "one")
	w.send(waits.Run, "it", "two")
	w.ends(&Scene{Run: waits.Run, Want: waits.Want, Finish: waits.Finish})
	next := w.Created(workflow.WithID(name), workflow.WithDelay(time.Hour))
	if _, err := w.Store.Create(w.Ctx, []store.Create{later.Create()}); err != nil {
		w.T.Fatal(err)
	}
	before := w.dump()

	m := store.RunRepair{Record: seen.Record, Reason: store.ReasonWrongRecord, By: "late"}
	m.Record.QueueState, m.Record.Due = store.StateReady, time.Time{}
	moved := map[string]func() (bool, error){
		"a run": func() (bool, error) { return exam.RepairRun(w.Ctx, m) },
		"a workflow id": func() (bool, error) {
			return exam.RepairName(w.Ctx, store.NameRepair{WorkflowID: name, Run: next.Run, By: "late"})
		},
		"a new run": func() (bool, error) { return exam.Forget(w.Ctx, later.Run) },
		"nothing":   func() (bool, error) { return exam.Forget(w.Ctx, event.NewRunID(w.Clock.Now(), slot)) },
		"no defect": func() (bool, error) { return exam.RepairDefect(w.Ctx, store.Defect{What: "nothing", Key: "none"}) },
		"links": func() (bool, error) {
			return exam.RepairLinks(w.Ctx, store.LinkRepair{Run: next.Run, Confirm: []event.ItemID{"x"}, By: "late"})
		},
		"a record": func() (bool, error) {
			o := store.Outgoing{Send: store.Send{ID: "x", To: next.Run}, From: next.Run, Phase: store.PhaseFresh}
			return exam.RepairLinks(w.Ctx, store.LinkRepair{Run: next.Run, Remove: []store.Outgoing{o}, By: "late"})
		},
		"a record of a stranger": func() (bool, error) {
			none := event.NewRunID(w.Clock.Now(), slot)
			return exam.RepairLinks(w.Ctx, store.LinkRepair{Run: none, Write: []store.Send{{ID: "x", To: next.Run}}, By: "late"})
		},
		"a stranger": func() (bool, error) {
			other := m
			other.Record.Run = event.NewRunID(w.Clock.Now(), slot)
			return exam.RepairRun(w.Ctx, other)
		},
	}
	for what, repair := range moved {
		if done, err := repair(); done || err != nil {
			w.T.Errorf("repair %s that is not as it was seen: %v, %v", what, done, err)
		}
	}
	if diff := cmp.Diff(before, w.dump()); diff != "" {
		w.T.Errorf("store (-before +after)\n%s", diff)
	}
}
