package repairtest

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Scene is a run in some state, in a store without a worker.
type Scene struct {
	Run     event.RunID
	Other   event.RunID     // another run of the scene; may be empty
	Session store.SessionID // session that owns the run; may be empty
	Item    event.ItemID    // an item in the inbox of the run; may be empty

	// Finish sends the run the messages for which it waits, advances the clock if necessary, and
	// returns the outcome of the run. A worker must be active. Want is the expected outcome.
	Finish func() string
	Want   string
}

// long is a text for tags and workflow IDs. It is too long for the compact form in which a store
// may keep a run.
const long = "far too long to be kept in one short piece of memory beside the rest of what is known of a run"

// started starts a run whose expected outcome is want.
func started[In any](w *World, d workflow.Definition[In, string], in In, want string, opts ...workflow.StartOption) *Scene {
	w.T.Helper()
	run, err := d.Start(w.Ctx, w.Client, in, opts...)
	if err != nil {
		w.T.Fatal(err)
	}
	return &Scene{Run: run.ID(), Want: want, Finish: func() string { return w.outcome(run) }}
}

// outcome waits for the end of a run. It returns the result, or "failed".
func (w *World) outcome(run *workflow.Run[string]) string {
	w.T.Helper()
	type end struct {
		v   string
		err error
	}
	ended := make(chan end, 1)
	ctx, cancel := context.WithCancel(w.Ctx)
	defer cancel()
	go func() {
		v, err := run.Result(ctx)
		ended <- end{v, err}
	}()
	var got end
	w.until(fmt.Sprintf("run %s has ended", run.ID()), func() (bool, error) {
		select {
		case got = <-ended:
			return true, nil
		default:
			return false, nil
		}
	})
	if got.err != nil {
		return "failed"
	}
	return got.v
}

// Created returns a run that no worker has claimed.
func (w *World) Created(opts ...workflow.StartOption) *Scene {
	return started(w, working, "worked", "worked", opts...)
}

// Delayed returns a run that is delayed by an hour.
func (w *World) Delayed() *Scene {
	s := w.Created(workflow.WithDelay(time.Hour))
	s.later(w)
	return s
}

// later changes Finish so that it first advances the clock by two hours.
func (s *Scene) later(w *World) {
	finish := s.Finish
	s.Finish = func() string {
		w.Clock.Advance(2 * time.Hour)
		return finish()
	}
}

// parks starts a worker, waits until the run is parked with the given status, and stops the worker.
func (w *World) parks(s *Scene, status event.Status) *Scene {
	w.T.Helper()
	stop := w.Work()
	w.until("the run is parked", func() (bool, error) {
		r := w.Record(s.Run)
		return r.QueueState == store.StateParked && r.Status == status, nil
	})
	stop()
	return s
}

// Sleeping returns a run that sleeps for an hour.
func (w *World) Sleeping(opts ...workflow.StartOption) *Scene {
	s := started(w, sleeping, time.Hour, "slept", opts...)
	s.later(w)
	return w.parks(s, event.StatusSleeping)
}

// Retrying returns a run whose step has failed once and waits for its retry.
func (w *World) Retrying() *Scene {
	s := started(w, retrying, "tried", "tried")
	s.later(w)
	return w.parks(s, event.StatusSleeping)
}

// Waiting returns a run that waits for the first of two messages.
func (w *World) Waiting(opts ...workflow.StartOption) *Scene {
	s := w.parks(started(w, asking, "is", "that is it", opts...), event.StatusWaiting)
	finish := s.Finish
	s.Finish = func() string {
		w.send(s.Run, "that", "one")
		w.send(s.Run, "it", "two")
		return finish()
	}
	return s
}

func (w *World) send(run event.RunID, text, key string) {
	w.T.Helper()
	if err := answers.Send(w.Ctx, w.Client.Run(run), text, workflow.IdempotencyKey(key)); err != nil {
		w.T.Fatalf("send to run %s: %v", run, err)
	}
}

// Unread returns a run that has received one message and has another one in its inbox.
func (w *World) Unread() *Scene {
	w.T.Helper()
	s := started(w, asking, "is", "that is it")
	w.send(s.Run, "that", "one")
	stop := w.Work()
	w.until("the run has taken the first message", func() (bool, error) {
		r := w.Record(s.Run)
		return r.QueueState == store.StateParked && r.Seq > 4, nil
	})
	stop()
	w.send(s.Run, "it", "two")
	for _, i := range w.runs()[s.Run].Inbox {
		s.Item = i.ID
	}
	return s
}

// Completed returns a completed run.
func (w *World) Completed(opts ...workflow.StartOption) *Scene {
	return w.ends(w.Created(opts...))
}

// Failed returns a failed run.
func (w *World) Failed() *Scene { return w.ends(started(w, failing, "", "failed")) }

// Canceled returns a canceled run.
func (w *World) Canceled() *Scene {
	w.T.Helper()
	s := started(w, sleeping, time.Hour, "failed")
	if err := w.Client.Run(s.Run).Cancel(w.Ctx, "no longer wanted"); err != nil {
		w.T.Fatal(err)
	}
	return w.ends(s)
}

func (w *World) ends(s *Scene) *Scene {
	w.T.Helper()
	stop := w.Work()
	if got := s.Finish(); got != s.Want {
		w.T.Fatalf("run %s ended as %q, want %q", s.Run, got, s.Want)
	}
	stop()
	return s
}

// Owned makes a session the owner of a scene's run. The session belongs to no worker.
func (w *World) Owned(s *Scene) *Scene {
	w.T.Helper()
	w.claim(s)
	return s
}

func (w *World) claim(s *Scene) store.Fence {
	w.T.Helper()
	s.Session = w.ids.Session()
	o := store.Session{Partition: w.Partition(s.Run), ID: s.Session, TTL: lease, Worker: "idle"}
	if err := w.Store.OpenSession(w.Ctx, o); err != nil {
		w.T.Fatal(err)
	}
	c, err := w.Store.ClaimRun(w.Ctx, o.Partition, o.ID, w.ids.Token(), s.Run)
	if err != nil {
		w.T.Fatal(err)
	}
	return c.Fence
}

// Blocked blocks the run of a scene, as a worker with other code would.
func (w *World) Blocked(s *Scene) *Scene {
	w.T.Helper()
	fence, rec := w.claim(s), w.Record(s.Run)
	got, err := w.Store.Commit(w.Ctx, []store.Commit{{
		Run: s.Run, WorkflowID: rec.WorkflowID, Fence: fence, Prev: rec.Last,
		Effect: store.EffectBlock, Status: event.StatusBlocked,
	}})
	if err == nil {
		err = got[0].Err
	}
	if err == nil {
		err = w.Store.CloseSession(w.Ctx, w.Partition(s.Run), s.Session)
	}
	if err != nil {
		w.T.Fatal(err)
	}
	s.Session = ""
	return s
}

// Queued returns a run that sleeps under a workflow ID. Another run, s.Other, is queued behind it.
func (w *World) Queued(workflowID string) *Scene {
	w.T.Helper()
	s := w.Sleeping(workflow.WithID(workflowID))
	next := w.Created(workflow.WithID(workflowID), workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.CancelActive}))
	s.Other, s.Want = next.Run, "failed, then worked"
	finish := s.Finish
	s.Finish = func() string { return finish() + ", then " + next.Finish() }
	return s
}

// Long returns start options that make the data of a run as large as possible.
func Long(name string) []workflow.StartOption {
	return []workflow.StartOption{
		workflow.WithID(name + " " + long), workflow.WithTags(map[string]string{"long": long, "name": name}), workflow.WithRetention(time.Hour + 1),
	}
}
