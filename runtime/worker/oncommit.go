package worker

import (
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/handover"
	"github.com/flowgen/flowgen/runtime/store"
)

func (t *runLoop) onCommitted(c *commit) {
	answer := &c.answer
	if t.inflight != c {
		return // the run was lost meanwhile
	}
	t.inflight = nil
	defer func() {
		if t.state == stateLive {
			t.draft.recycle(c)
		}
	}()
	conflict, isConflict := errors.AsType[*store.ConflictError](answer.Err)
	permanent, isPermanent := errors.AsType[store.PermanentError](answer.Err)
	switch {
	case c.start != nil:
		t.onCreated(c)
	case answer.Err == nil:
		t.onDurable(c, answer)
	case errors.Is(answer.Err, store.ErrUnread):
		// The run may not leave before it has seen all accepted items. The next commit has a new
		// CommitID, because this one was not applied.
		t.inbox.refused++
		t.inbox.wanted = true
		t.stepping.starts, t.stepping.cancels = append(c.starts, t.stepping.starts...), append(c.cancels, t.stepping.cancels...)
		t.stepping.opened = append(c.opened, t.stepping.opened...)
	case errors.Is(answer.Err, store.ErrFenced):
		t.log.Warn("lost a run: its claim is gone", "run", t.id)
		t.lose(nil)
	case isConflict:
		t.log.Warn("lost a race for a run: reading it again", "run", t.id, "error", conflict)
		t.lose(&t.fence)
	case isPermanent && permanent.Permanent():
		t.unwritable(c, answer.Err)
	default:
		t.log.Error("commit refused", "run", t.id, "error", answer.Err)
		t.lose(&t.fence)
	}
}

// unwritable ends the work on a run whose commit the store will never accept, so its state in
// memory cannot be stored. The run is blocked, with the reason. If even that cannot be written, the
// run is set aside. In both cases the worker goes on with other runs.
func (t *runLoop) unwritable(c *commit, err error) {
	if c.req.Effect == store.EffectBlock && c.req.Frame == nil {
		t.runs.setAside(t.id, t.route.Workflow, err)
		t.lose(nil)
		return
	}
	if large, ok := errors.AsType[*store.TooLargeError](err); ok {
		err = fmt.Errorf("%w: %s", large, largest(t.draft.unsaved[:c.events]))
	}
	t.forget()
	t.block(err)
}

// largest describes the largest of the events.
func largest(events []event.Event) string {
	var found *event.Event
	for i := range events {
		if e := &events[i]; found == nil || e.Size() > found.Size() {
			found = e
		}
	}
	if found == nil {
		return "it holds no events"
	}
	return fmt.Sprintf("the largest of %d events is %s %s%s with %d bytes", len(events), found.Type, found.Name, found.Key, found.Size())
}

// onDurable carries out the effects of a durable commit.
func (t *runLoop) onDurable(c *commit, answer *store.Committed) {
	saved := t.draft.unsaved
	if c.req.Frame != nil {
		if t.unbegun.Load() != nil {
			t.unbegun.Store(nil)
		}
		t.reporter.length(t.seq, c.req.Last, t.size.bytes)
		t.n, t.seq, t.last = answer.N, c.req.Last, c.req.CommitID
		t.size.add(len(c.req.Frame), saved[:c.events])
		t.moved = c.made
	}
	if (c.req.Effect == store.EffectFinish || c.req.Effect == store.EffectContinue) && c.events > 0 {
		t.ended = &handover.End{Workflow: t.route.Workflow, Last: saved[c.events-1]}
		t.reporter.commit(c, &t.ended.Last)
	} else {
		t.reporter.commit(c, nil)
	}
	if label, set := c.req.Label(); set {
		t.group = label.Group
	}
	t.draft.saved(c)
	t.inbox.saved(c, answer.Unread)
	switch {
	case c.req.Exempt != store.ExemptUnchanged && c.req.Effect == store.EffectNone:
		t.suspicion.onExempt(c.req.Exempt)
	case c.req.Progress && t.recoveries > 0:
		t.suspicion.acquit()
	}
	if len(c.req.Send) > 0 {
		t.outbox(t.partition, t.id, answer.Sent, len(answer.Sent) == len(c.req.Send))
	}
	switch c.req.Effect {
	case store.EffectNone:
		if t.next != nil {
			t.lose(nil) // the claim under which this commit was made is over
			return
		}
		t.stepping.saved(c)
	case store.EffectPark, store.EffectYield:
		t.left = c.made
		t.leave(true)
	case store.EffectBlock, store.EffectFinish, store.EffectContinue:
		t.stepping.drop(errEnded)
		t.forget()
		t.leave(false)
	}
}

// onCreated continues with a run that exists now, and drops one that does not.
func (t *runLoop) onCreated(c *commit) {
	t.start = nil
	switch {
	case c.answer.Err == nil:
		t.claimSeq = t.runs.claimSeq.Add(1) // an earlier request for the owned runs did not contain this one
		t.onDurable(c, &c.answer)
	case errors.Is(c.answer.Err, errNotKnown):
		t.lose(&t.fence)
	default:
		t.lose(nil)
	}
}
