package worker

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/handover"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

const (
	committers  = 2
	commitBatch = 256
)

// commit is one commit of a run on its way. A run has one at a time.
type commit struct {
	t       *task
	req     store.Commit
	birth   *start // it creates the run; nil: it is there
	note    string // why the run is blocked
	again   bool   // it publishes t.again
	told    int    // of t.refusals
	events  int    // of t.unsaved
	took    int    // of t.taken
	answer  store.Committed
	starts  []*attempt // to start when it is durable
	cancels []uint64   // steps to cancel when it is durable
}

// commitLoop commits for many runs at once. While a batch is written, the next
// one gathers.
func (w *Worker) commitLoop() {
	defer w.work.Done()
	var batch []*commit
	var requests []store.Commit
	for {
		if batch = gather(w.io, w.commits, batch, commitBatch); len(batch) == 0 {
			return
		}
		requests = w.commitBatch(batch, requests[:0])
		clear(batch) // the next ones come into the same room
		clear(requests)
	}
}

// send hands the commit of the task to the committers, or to those who create runs. It
// is not answered if the worker has stopped.
func (t *task) send(c *commit, to chan<- *commit) {
	t.inflight = c
	t.w.activity.Begin()
	select {
	case to <- c:
	case <-t.w.io.Done():
	}
}

// deliver tells the task what was answered. The commit is the task's from then on, for
// the next one.
func (c *commit) deliver(answer store.Committed) {
	t := c.t
	c.answer = answer
	t.post(input{kind: inputCommitted, commit: c})
	t.w.activity.End()
}

// newCommit returns a commit of so many events.
func (t *task) newCommit(events int) *commit {
	c := t.spare
	if c == nil {
		c = &commit{}
	}
	t.spare = nil
	*c = commit{t: t, events: events}
	return c
}

// recycle keeps a commit that was answered, and that nobody else has, for the next one.
func (t *task) recycle(c *commit) {
	if t.state == taskLive {
		*c = commit{}
		t.spare = c
	}
}

// leaving reports whether a commit that gives the run back is in flight. Nothing
// is begun meanwhile: the run may belong to somebody else already.
func (t *task) leaving() bool {
	return t.inflight != nil && t.inflight.req.Effect != store.EffectNone
}

// commitBatch sends commits until there is an answer. After an error it is not
// known which of them were applied: the same bytes are sent again, and the store
// answers for each of them as it would have done the first time.
func (w *Worker) commitBatch(batch []*commit, requests []store.Commit) []store.Commit {
	for _, c := range batch {
		requests = append(requests, c.req)
		if c.note != "" {
			w.writeNote(c)
		}
	}
	results, err := retry(w, "commit", func(ctx context.Context) ([]store.Committed, error) { return w.store.Commit(ctx, requests) })
	for i, c := range batch {
		answer := store.Committed{Err: err}
		if err == nil {
			answer = results[i]
		}
		c.deliver(answer)
	}
	return requests
}

func (w *Worker) writeNote(c *commit) {
	if n, ok := store.As[store.Noter](w.store); ok {
		// Only people read it, and the log of the worker has it, too.
		if err := n.SetNote(w.io, c.req.Run, c.req.Fence, workflow.NoteBlocked, []byte(c.note), false); err != nil {
			w.log.Warn("write why a run is blocked", "run", c.req.Run, "error", err)
		}
	}
}

func (t *task) onCommitted(c *commit) {
	answer := &c.answer
	if t.inflight != c {
		return // the run was lost meanwhile
	}
	t.inflight = nil
	defer t.recycle(c)
	conflict, isConflict := errors.AsType[*store.ConflictError](answer.Err)
	switch {
	case c.birth != nil:
		t.onBorn(c)
	case answer.Err == nil:
		t.onDurable(c, answer)
	case errors.Is(answer.Err, store.ErrMail):
		// The run may not leave before it has seen what was accepted for it. The
		// next commit has a new CID: this one was not applied.
		t.refused++
		t.mailWanted = true
		t.starts, t.cancels = append(c.starts, t.starts...), append(c.cancels, t.cancels...)
	case errors.Is(answer.Err, store.ErrFenced):
		t.w.log.Warn("lost a run: its claim is gone", "run", t.id)
		t.lose(nil)
	case isConflict:
		t.w.log.Warn("lost a race for a run: reading it again", "run", t.id, "error", conflict)
		t.lose(&t.fence)
	default:
		t.w.log.Error("commit refused", "run", t.id, "error", answer.Err)
		t.lose(&t.fence)
	}
}

// onDurable releases what the commit explains.
func (t *task) onDurable(c *commit, answer *store.Committed) {
	if c.req.Frame != nil {
		t.n, t.seq, t.last = answer.N, c.req.Last, c.req.CID
	}
	saved := t.unsaved
	if (c.req.Effect == store.EffectFinish || c.req.Effect == store.EffectContinue) && c.events > 0 {
		t.ended = &handover.End{Workflow: t.class.Workflow, Last: saved[c.events-1]}
		t.reportCommit(c, &t.ended.Last)
	} else {
		t.reportCommit(c, nil)
	}
	if t.unsaved = t.unsaved[c.events:]; len(t.unsaved) == 0 && t.run != nil {
		t.run.Lend(saved[:0])
		t.unsaved = nil
	}
	t.taken = t.taken[c.took:]
	t.refusals = t.refusals[c.told:]
	if c.again {
		t.again = nil
	}
	t.refused = 0
	if len(c.req.Send) > 0 {
		t.w.sessions[t.partition].relay.kick()
	}
	t.mailWanted = t.mailWanted || answer.Mail
	switch c.req.Effect {
	case store.EffectNone:
		if t.next != nil {
			t.lose(nil) // the claim that this commit was made under is over
			return
		}
		for _, a := range c.starts {
			t.launch(a)
		}
		for _, ref := range c.cancels {
			if a := t.attempts[ref]; a != nil {
				a.stop(t.cancelCause(ref))
			}
		}
	case store.EffectPark, store.EffectYield:
		t.leave(true)
	case store.EffectBlock, store.EffectFinish, store.EffectContinue:
		t.dropAttempts(errEnded)
		t.forget()
		t.leave(false)
	}
}

func (t *task) cancelCause(ref uint64) error {
	if op := t.run.Op(ref); op != nil && op.CancelWanted() {
		return op.CancelCause()
	}
	return errLost
}

// poison ends a run that has taken too many workers with it, without running
// any of its code.
func (t *task) poison(events []event.Event, inbox []store.Item) {
	if err := t.run.Skip(events); err != nil {
		t.block(err)
		return
	}
	for _, item := range inbox {
		t.late = append(t.late, item.ID)
		t.taken = append(t.taken, item.ID)
	}
	if !t.run.Fold().Run.Terminal() {
		t.end(event.Event{Type: event.RunFailed, Failure: poisonFailure(t.run.Fold(), t.recoveries)})
	}
}
