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
	t.start = s
	t.tenure = tenure{
		route: c.Route, workflowID: c.WorkflowID, partition: s.partition, lease: t.leases[s.partition], session: s.session,
		fence: store.Fence{Epoch: 1, Token: event.NewToken()}, since: t.clock.Now(),
	}
	t.draft.unsaved = append(make([]event.Event, 0, usualStart), s.Event)
	t.goLive(t.draft.unsaved, nil)
}

// usualStart is how many events a run mostly begins with: it was created and has
// started, its first step was asked for and begins.
const usualStart = 4

// creation returns the commit that creates the run.
func (d *draft) creation(start *localStart) (*commit, error) {
	n := d.portionOfStart()
	c := d.newCommit(n)
	c.start = start
	if err := d.frame(&c.req, d.unsaved[:n]); err != nil {
		return nil, err
	}
	if n == len(d.unsaved) {
		c.starts, d.stepping.starts = d.stepping.starts, nil
	}
	r := &start.request
	*r = start.Create
	r.Frame, r.CommitID, r.Seq, r.Status = c.req.Frame, c.req.CommitID, c.req.Last, event.StatusRunning
	if effect, _ := d.effect(); effect == store.EffectPark && n == len(d.unsaved) {
		r.Status = d.status(effect) // it waits from the beginning
	}
	r.Owner = &store.Owner{Session: d.session, Token: d.fence.Token}
	return c, nil
}

// portionOfStart returns how many of the first events a creation can hold: it does
// nothing for others, and ends nothing.
func (d *draft) portionOfStart() int {
	n := fitting(d.unsaved)
	for i := range d.unsaved[:n] {
		e := &d.unsaved[i]
		sends, err := parcel.Sends(d.in.id, d.run.Fold(), e)
		if published, wrong := publications(d.route.Workflow, d.unsaved[i:i+1]); err != nil || wrong != nil || len(sends)+len(published) > 0 {
			return i
		}
		if e.Type.Terminal() || len(publish.Of(d.run.Fold(), e)) > 0 {
			return i
		}
	}
	return n
}
