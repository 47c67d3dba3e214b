package repairtest

import (
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Scenes in which a run is related to other runs.

// Continued returns a run that was continued by another run, s.Other, which sleeps.
func (w *World) Continued(opts ...workflow.StartOption) *Scene {
	w.T.Helper()
	s := started(w, looping, loop{1, time.Hour}, "looped", opts...)
	s.later(w)
	stop := w.Work()
	w.until("the continuation sleeps", func() (bool, error) {
		s.Other = w.Record(s.Run).Next
		return s.Other != "" && w.Record(s.Other).Status == event.StatusSleeping && w.Record(s.Other).QueueState == store.StateParked, nil
	})
	stop()
	return s
}

// Parent returns a run that waits for its child, s.Other, which sleeps. The outbox record that
// created the child is in the phase answered.
func (w *World) Parent() *Scene {
	w.T.Helper()
	s := started(w, begetting, time.Hour, "the child slept")
	finish := s.Finish
	s.Finish = func() string {
		w.until("the child sleeps or has slept", func() (bool, error) {
			r := w.runs()[s.Other]
			return r != nil && (r.QueueState == store.StateEnded || r.QueueState == store.StateParked && r.Status == event.StatusSleeping), nil
		})
		w.Clock.Advance(2 * time.Hour)
		return finish()
	}
	stop := w.Work()
	w.until("the child sleeps and its parent waits", func() (bool, error) {
		asleep := false
		for id, r := range w.runs() {
			if r.Parent == s.Run {
				s.Other, asleep = id, r.QueueState == store.StateParked && r.Status == event.StatusSleeping
			}
		}
		all := w.outbox()
		return asleep && w.Record(s.Run).QueueState == store.StateParked && len(all) == 1 && all[0].Phase == store.PhaseAnswered, nil
	})
	stop()
	return s
}

// Settled returns a parent like Parent whose outbox records are all confirmed.
func (w *World) Settled() *Scene {
	w.T.Helper()
	s := w.Parent()
	for len(w.outbox()) > 0 {
		before := w.outbox()
		w.Clock.Advance(store.Horizon)
		stop := w.Work() // a worker that starts delivers outbox records
		w.until("the records got further", func() (bool, error) { return !cmp.Equal(before, w.outbox()), nil })
		stop()
	}
	w.Clock.Advance(2 * store.Horizon)
	return s
}

// outbox returns the outbox records of all runs.
func (w *World) outbox() []store.Outgoing {
	var all []store.Outgoing
	for _, part := range w.examine() {
		all = append(all, part.Snapshot.Outbox...)
	}
	return all
}

// EndsUnheard ends the child of a scene. It then deletes the outbox record that would notify the
// parent.
func (w *World) EndsUnheard(s *Scene) {
	w.T.Helper()
	child := &Scene{Run: s.Other}
	fence, rec := w.claim(child), w.Record(s.Other)
	now := w.Clock.Now()
	c := store.Commit{
		Run: s.Other, WorkflowID: rec.WorkflowID, Fence: fence, Prev: rec.Last, CommitID: w.ids.CommitID(), First: rec.Seq + 1, Last: rec.Seq + 1,
		Effect: store.EffectFinish, Status: event.StatusCompleted,
	}
	var err error
	c.Frame, err = event.AppendFrame(nil, &event.Frame{
		CommitID: c.CommitID, Prev: c.Prev, Epoch: fence.Epoch, Token: fence.Token, Time: now,
		Events: []event.Event{{Seq: c.First, Type: event.RunCompleted, Time: now, Payload: []byte(`"slept"`)}},
	})
	if err != nil {
		w.T.Fatal(err)
	}
	got, err := w.Store.Commit(w.Ctx, []store.Commit{c})
	if err == nil {
		err = got[0].Err
	}
	if err == nil {
		err = w.Store.CloseSession(w.Ctx, w.Partition(s.Other), child.Session)
	}
	if err != nil {
		w.T.Fatal(err)
	}
	w.Clock.Advance(store.Horizon)
}
