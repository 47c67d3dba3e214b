package worker

import (
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/handover"
	"github.com/flowgen/flowgen/runtime/internal/parcel"
	"github.com/flowgen/flowgen/runtime/internal/publish"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/request"
)

// What a client on this process starts is created by the worker if that can begin it at
// once. The code of the run comes first: it has no effects before it waits for the
// first time, only events. Then one request stores the run, owned by this worker, with
// all of them in its first frame; and only when that was answered, what they explain is
// done. A claim and a commit less, and no rule is another: to create, to claim and to
// commit is what is done, in one action.
//
// If the answer is lost the run may be there, owned, and nobody works on it: that is a
// claim whose answer was lost, which the next reconciliation gives back.

const (
	bearers    = 2
	birthBatch = 256
)

// host is the worker as clients of its process see it: a [handover.Host].
type host struct{ *Worker }

// Take begins what a client starts, unless the run has to wait: for its time, for a
// run before it, or because others wait for a place. A run that is created with messages
// waits as well: its code must not begin before it has them, and a run that is created
// claimed has none.
func (h host) Take(s *handover.Start) bool {
	w, c := h.Worker, &s.Create
	if len(c.Items) > 0 || c.Delay > 0 || !c.At.IsZero() || c.Active == store.ActiveCancel || !w.serves[c.Class] {
		return false
	}
	in := w.sessions[w.partitionOf(c.Run)]
	id := in.current()
	if !in.alive(id) || in.silent.Load() {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.stopping.Load() || in.behind || w.turns.now.Load() != nil:
		return false
	case w.occupied() >= w.cfg.Runs:
		in.behind = true // this one waits among those that are ready, and comes before the next one
		return false
	}
	t := &task{w: w, id: c.Run, label: c.Class.Workflow}
	w.tasks[t.id] = t
	t.post(input{kind: inputStart, start: &start{Start: s, partition: in.partition, session: id}})
	return true
}

// start is a run that is to be created, under a session of the worker.
type start struct {
	*handover.Start
	partition int
	session   store.SessionID
	request   store.Create // as the worker sends it
}

// onStart runs the code of a run that does not exist yet to where it first waits.
func (t *task) onStart(s *start) {
	c := &s.Create
	t.birth, t.class, t.workflowID, t.partition, t.session = s, c.Class, c.WorkflowID, s.partition, s.session
	t.fence, t.since = store.Fence{Epoch: 1, Token: event.NewToken()}, t.w.clock.Now()
	t.unsaved = append(make([]event.Event, 0, usualBirth), s.Event)
	t.execute(t.unsaved, nil)
}

// usualBirth is how many events a run mostly begins with: it was created and has
// started, its first step was asked for and begins.
const usualBirth = 4

// bear sends the request that creates the run.
func (t *task) bear() {
	n := t.portionBorn()
	c := t.newCommit(n)
	c.birth, c.req.Fence = t.birth, t.fence
	if err := t.frame(&c.req, t.unsaved[:n]); err != nil {
		t.w.log.Error("encode first frame failed", "run", t.id, "error", err)
		t.lose(nil)
		return
	}
	if n == len(t.unsaved) {
		c.starts, t.starts = t.starts, nil
	}
	r := &t.birth.request
	*r = t.birth.Create
	r.Frame, r.CID, r.Seq, r.Status = c.req.Frame, c.req.CID, c.req.Last, event.StatusRunning
	if effect, _ := t.effect(); effect == store.EffectPark && n == len(t.unsaved) {
		r.Status = t.status(effect) // it waits from the beginning
	}
	r.Owner = &store.Owner{Session: t.session, Token: t.fence.Token}
	t.send(c, t.w.births)
}

// portionBorn returns how many of the first events a creation can hold: it does
// nothing for others, and ends nothing.
func (t *task) portionBorn() int {
	n := fitting(t.unsaved)
	for i := range t.unsaved[:n] {
		e := &t.unsaved[i]
		sends, err := parcel.Sends(t.id, t.run.Fold(), e)
		if published, wrong := publications(t.class.Workflow, t.unsaved[i:i+1]); err != nil || wrong != nil || len(sends)+len(published) > 0 {
			return i
		}
		if e.Type.Terminal() || len(publish.Of(t.run.Fold(), e)) > 0 {
			return i
		}
	}
	return n
}

// birthLoop creates runs, many at once.
func (w *Worker) birthLoop() {
	defer w.work.Done()
	var batch []*commit
	var requests []store.Create
	for {
		if batch = request.Gather(w.io, w.births, batch, birthBatch); len(batch) == 0 {
			return
		}
		requests = w.bearBatch(batch, requests[:0])
		clear(batch)
		clear(requests)
	}
}

// bearBatch asks once. After an error it is not known which of the runs exist, and
// whoever starts them is told so.
func (w *Worker) bearBatch(batch []*commit, requests []store.Create) []store.Create {
	sent := batch[:0]
	for _, c := range batch {
		if !c.birth.Begin() {
			c.deliver(store.Committed{Err: errWithdrawn})
			continue
		}
		requests, sent = append(requests, c.birth.request), append(sent, c)
	}
	if len(sent) == 0 {
		return requests
	}
	created, err := w.store.Create(w.io, requests)
	for i, c := range sent {
		unknown := err
		if err == nil && store.Unknown(created[i].Err) {
			unknown = created[i].Err
		}
		if unknown == nil {
			c.deliver(born(c, &created[i]))
			continue
		}
		if w.io.Err() != nil {
			unknown = fmt.Errorf("%w: %v", ErrStopping, unknown) //nolint:errorlint // it is not the context of the caller that has ended
		}
		c.birth.Answers <- handover.Answer{Err: unknown}
		c.deliver(store.Committed{Err: errNotKnown})
	}
	return requests
}

// The ways in which a run is not born here.
var (
	errWithdrawn = errors.New("its client has created it")
	errNotKnown  = errors.New("it is not known whether it was created")
	errNotBorn   = errors.New("it was not created, or is not ours")
)

// born tells the client what came of a start, and returns the same as the answer to a
// commit.
func born(c *commit, a *store.Created) store.Committed {
	if errors.Is(a.Err, store.ErrExpired) || errors.Is(a.Err, store.ErrNotClaimable) {
		c.birth.Answers <- handover.Answer{Declined: true} // nothing was stored
		return store.Committed{Err: errNotBorn}
	}
	c.birth.Answers <- handover.Answer{Created: *a}
	if a.Err != nil || !a.New || a.Fence != c.req.Fence {
		return store.Committed{Err: errNotBorn}
	}
	return store.Committed{N: 1}
}

// onBorn goes on with a run that exists now, and drops one that does not.
func (t *task) onBorn(c *commit) {
	t.birth = nil
	switch {
	case c.answer.Err == nil:
		t.claimSeq = t.w.claimSeq.Add(1) // whoever asked before for what is owned was not told of it
		t.onDurable(c, &c.answer)
	case errors.Is(c.answer.Err, errNotKnown):
		t.lose(&t.fence)
	default:
		t.lose(nil)
	}
}
