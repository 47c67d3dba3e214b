package worker

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/parcel"
	"github.com/flowgen/flowgen/runtime/internal/publish"
	"github.com/flowgen/flowgen/runtime/store"
)

// What a client on this process starts is created by the worker if that can begin it at
// once. The code of the run comes first: it has no effects before it waits for the
// first time, only events. Then one request stores the run, owned by this worker, with
// all of them in its first frame; and only when that was answered, what they explain is
// done. That saves a claim and a commit, and changes no rule: create, claim and
// commit happen in one action.
//
// If the answer is lost the run may be there, owned, and nobody works on it: that is a
// claim whose answer was lost, which the next reconciliation gives back.

// onStart runs the code of a run that does not exist yet to where it first waits.
func (t *runLoop) onStart(s *localStart) {
	c := &s.Create
	t.start, t.route, t.workflowID, t.partition, t.session = s, c.Route, c.WorkflowID, s.partition, s.session
	t.fence, t.since = store.Fence{Epoch: 1, Token: event.NewToken()}, t.clock.Now()
	t.news.unsaved = append(make([]event.Event, 0, usualStart), s.Event)
	t.goLive(t.news.unsaved, nil)
}

// usualStart is how many events a run mostly begins with: it was created and has
// started, its first step was asked for and begins.
const usualStart = 4

// create sends the request that creates the run.
func (t *runLoop) create() {
	n := t.portionOfStart()
	c := t.newCommit(n)
	c.start, c.req.Fence = t.start, t.fence
	if err := t.frame(&c.req, t.news.unsaved[:n]); err != nil {
		t.log.Error("encode first frame failed", "run", t.id, "error", err)
		t.lose(nil)
		return
	}
	if n == len(t.news.unsaved) {
		c.starts, t.under.starts = t.under.starts, nil
	}
	r := &t.start.request
	*r = t.start.Create
	r.Frame, r.CommitID, r.Seq, r.Status = c.req.Frame, c.req.CommitID, c.req.Last, event.StatusRunning
	if effect, _ := t.effect(); effect == store.EffectPark && n == len(t.news.unsaved) {
		r.Status = t.status(effect) // it waits from the beginning
	}
	r.Owner = &store.Owner{Session: t.session, Token: t.fence.Token}
	t.send(c)
}

// portionOfStart returns how many of the first events a creation can hold: it does
// nothing for others, and ends nothing.
func (t *runLoop) portionOfStart() int {
	n := fitting(t.news.unsaved)
	for i := range t.news.unsaved[:n] {
		e := &t.news.unsaved[i]
		sends, err := parcel.Sends(t.id, t.run.Fold(), e)
		if published, wrong := publications(t.route.Workflow, t.news.unsaved[i:i+1]); err != nil || wrong != nil || len(sends)+len(published) > 0 {
			return i
		}
		if e.Type.Terminal() || len(publish.Of(t.run.Fold(), e)) > 0 {
			return i
		}
	}
	return n
}
