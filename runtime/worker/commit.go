package worker

import (
	"errors"
	"fmt"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/handover"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/request"
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
	mail    mail   // of t.mail
	answer  store.Committed
	starts  []*attempt // to start when it is durable
	cancels []uint64   // steps to cancel when it is durable
}

// commitLoop commits for many runs at once. While a batch is written, the next
// one gathers.
func (w *Worker) commitLoop() {
	defer w.work.Done()
	var batch []*commit
	for {
		if batch = request.Gather(w.io, w.commits, batch, commitBatch); len(batch) == 0 {
			return
		}
		for _, c := range batch {
			if c.note != "" && !w.sessions[w.partitionOf(c.req.Run)].silent.Load() { // it would keep the others
				w.writeNote(c)
			}
		}
		w.commitSender.Send(batch)
		clear(batch[:cap(batch)]) // the next ones come into the same room
	}
}

// newCommitSender returns what sends commits until there is an answer. After an error it is
// not known which of them were applied: the same bytes are sent again, and the store
// answers for each of them as it would have done the first time.
func (w *Worker) newCommitSender() *request.Sender[*commit] {
	return request.NewSender(request.Params[*commit]{
		Ask:       w.commitBatch,
		GiveUp:    func(c *commit, err error) { c.deliver(store.Committed{Err: err}) },
		Partition: func(c *commit) int { return w.partitionOf(c.req.Run) }, // its task may be on with another claim
		Bytes:     (*commit).bytes,
		Clock:     w.clock, Context: w.io, Last: w.hard.Load, Work: &w.work,
	})
}

// bytes returns about how long the request is.
func (c *commit) bytes() int {
	n := len(c.req.Frame)
	for i := range c.req.Send {
		n += len(c.req.Send[i].Body)
	}
	for i := range c.req.Publish {
		n += len(c.req.Publish[i].Body)
	}
	if c.req.Continue != nil {
		n += len(c.req.Continue.Frame)
	}
	return n
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

// commitRooms keeps what requests are made in.
var commitRooms = sync.Pool{New: func() any { return new([]store.Commit) }}

// commitBatch sends commits once, and returns those that were not answered.
func (w *Worker) commitBatch(batch []*commit) (unknown []*commit, err error) {
	room := commitRooms.Get().(*[]store.Commit)
	defer commitRooms.Put(room)
	requests := (*room)[:0]
	for _, c := range batch {
		requests = append(requests, c.req)
	}
	results, err := w.store.Commit(w.io, requests)
	unknown = batch[:0]
	for i, c := range batch {
		answer := store.Committed{Err: err}
		if err == nil {
			answer = results[i]
		}
		if store.Unknown(answer.Err) {
			unknown, err = append(unknown, c), answer.Err
			continue
		}
		c.deliver(answer)
	}
	clear(requests)
	*room = requests
	return unknown, err
}

func (w *Worker) writeNote(c *commit) {
	if n, ok := store.As[store.Noter](w.store); ok {
		// Only people read it, and the log of the worker has it, too.
		if err := n.SetNote(w.io, c.req.Run, c.req.Fence, engine.NoteBlocked, []byte(c.note), false); err != nil {
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
	permanent, isPermanent := errors.AsType[store.PermanentError](answer.Err)
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
	case isPermanent && permanent.Permanent():
		t.unwritable(c, answer.Err)
	default:
		t.w.log.Error("commit refused", "run", t.id, "error", answer.Err)
		t.lose(&t.fence)
	}
}

// unwritable ends the work on a run of which the store will never take the commit: what is
// in memory of it can go nowhere. The run is blocked, with the reason; if not even that can
// be written it is set aside. Either way others are not kept by it.
func (t *task) unwritable(c *commit, err error) {
	if c.req.Effect == store.EffectBlock && c.req.Frame == nil {
		t.w.setAside(t, err)
		t.lose(nil)
		return
	}
	if large, ok := errors.AsType[*store.TooLargeError](err); ok {
		err = fmt.Errorf("%w: %s", large, largest(t.unsaved[:c.events]))
	}
	t.forget()
	t.block(err)
}

// largest says which of the events is the largest.
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

// onDurable releases what the commit explains.
func (t *task) onDurable(c *commit, answer *store.Committed) {
	saved := t.unsaved
	if c.req.Frame != nil {
		if t.unbegun.Load() != nil {
			t.unbegun.Store(nil)
		}
		t.warnOfLength(t.seq, c.req.Last)
		t.n, t.seq, t.last = answer.N, c.req.Last, c.req.CID
		t.size.add(len(c.req.Frame), saved[:c.events])
	}
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
	t.mail.items, t.mail.bytes = t.mail.items-c.mail.items, t.mail.bytes-c.mail.bytes
	t.refusals = t.refusals[c.told:]
	if c.again {
		t.again = nil
	}
	t.refused = 0
	switch {
	case c.req.Exempt != store.ExemptUnchanged && c.req.Effect == store.EffectNone:
		t.onExempt(c.req.Exempt)
	case c.req.Progress && t.recoveries > 0:
		t.acquit()
	}
	if len(c.req.Send) > 0 {
		t.w.sessions[t.partition].relay.Notify()
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
