package repairtest

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Scene is a run in some state, with no worker at work.
type Scene struct {
	Run     event.RunID
	Other   event.RunID     // another one that the scene is about
	Session store.SessionID // that owns the run, if one does
	Item    event.ItemID    // an item in its inbox, if there is one

	// Finish does what the run waits for, with a worker at work, and returns how it
	// ended; Want is the expected end.
	Finish func() string
	Want   string
}

// long is a tag, and a workflow id, that a store cannot keep with the rest.
const long = "far too long to be kept in one short piece of memory beside the rest of what is known of a run"

// started starts a run and says how it must end.
func started[In any](w *World, d workflow.Definition[In, string], in In, want string, opts ...workflow.StartOption) *Scene {
	w.T.Helper()
	run, err := d.Start(w.Ctx, w.Client, in, opts...)
	if err != nil {
		w.T.Fatal(err)
	}
	return &Scene{Run: run.ID(), Want: want, Finish: func() string { return w.outcome(run) }}
}

// outcome waits for the end of a run.
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

// Created is a run that no worker has seen.
func (w *World) Created(opts ...workflow.StartOption) *Scene {
	return started(w, working, "worked", "worked", opts...)
}

// Delayed starts a run with a delay of an hour.
func (w *World) Delayed() *Scene {
	s := w.Created(workflow.WithDelay(time.Hour))
	s.later(w)
	return s
}

// later makes two hours pass before the run is finished.
func (s *Scene) later(w *World) {
	finish := s.Finish
	s.Finish = func() string {
		w.Clock.Advance(2 * time.Hour)
		return finish()
	}
}

// parks lets a worker work until the run is parked, and stops it.
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

// Sleeping is a run that sleeps for an hour.
func (w *World) Sleeping(opts ...workflow.StartOption) *Scene {
	s := started(w, sleeping, time.Hour, "slept", opts...)
	s.later(w)
	return w.parks(s, event.StatusSleeping)
}

// Retrying starts a run whose step has failed once and waits for its retry.
func (w *World) Retrying() *Scene {
	s := started(w, retrying, "tried", "tried")
	s.later(w)
	return w.parks(s, event.StatusSleeping)
}

// Waiting is a run that waits for the first of two messages.
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

// Unread is a run whose code has taken one message, and which has another one in
// its inbox.
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

// Completed is a run that has completed.
func (w *World) Completed(opts ...workflow.StartOption) *Scene {
	return w.ends(w.Created(opts...))
}

// Failed is a run that has failed.
func (w *World) Failed() *Scene { return w.ends(started(w, failing, "", "failed")) }

// Canceled is a run that was cancelled.
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

// Owned makes a session own the run of a scene; it never does anything with it.
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

// Blocked blocks the run of a scene, as a worker does whose code does not fit.
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

// Queued is a run that sleeps under a workflow id, and another one, s.Other, that
// waits for its end.
func (w *World) Queued(workflowID string) *Scene {
	w.T.Helper()
	s := w.Sleeping(workflow.WithID(workflowID))
	next := w.Created(workflow.WithID(workflowID), workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.CancelActive}))
	s.Other, s.Want = next.Run, "failed, then worked"
	finish := s.Finish
	s.Finish = func() string { return finish() + ", then " + next.Finish() }
	return s
}

// Long are start options that make a store keep as much as it can of a run.
func Long(name string) []workflow.StartOption {
	return []workflow.StartOption{
		workflow.WithID(name + " " + long), workflow.WithTags(map[string]string{"long": long, "name": name}), workflow.WithRetention(time.Hour + 1),
	}
}
