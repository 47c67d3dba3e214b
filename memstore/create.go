package memstore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Create stores new runs. The store keeps the frames, tags and items given.
func (s *Store) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	for i := range runs {
		if err := s.routed(&runs[i]); err != nil {
			return nil, err
		}
	}
	answers := make([]store.Created, len(runs))
	s.byPartition(len(runs), func(i int) event.RunID { return runs[i].Run }, func(p *partition, i int) {
		answers[i] = p.create(&runs[i])
	})
	return answers, nil
}

// routed checks that the run will be in the partition in which its workflow id
// is decided: two partitions cannot keep one workflow id unique.
func (s *Store) routed(c *store.Create) error {
	if len(s.parts) == 1 || c.WorkflowID == "" {
		return nil
	}
	if n := len(s.parts); int(c.Run.Slot())%n != int(event.SlotOf(c.WorkflowID))%n {
		return fmt.Errorf("create run %s: its slot is not that of workflow id %q", c.Run, c.WorkflowID)
	}
	return nil
}

func (p *partition) create(c *store.Create) store.Created {
	if err := c.Check(); err != nil {
		return store.Created{Err: err}
	}
	if p.late(c.Deadline) {
		return store.Created{Err: store.ErrStale}
	}
	if r := p.runs[c.Run]; r != nil {
		return r.answer(c)
	}
	if n := p.names[c.WorkflowID]; n != nil {
		if n.active != nil {
			return p.createBehind(n, c)
		}
		if n.last != nil && refuses(c.Finished, n.last.status) {
			return store.Created{Err: &store.FinishedError{WorkflowID: c.WorkflowID, Run: n.last.id, Status: n.last.status}}
		}
	}
	due := p.startTime(c)
	owner, err := p.ownerOf(c, due)
	if err != nil {
		return store.Created{Err: err}
	}
	r := p.insertWithItems(c)
	if c.WorkflowID != "" {
		p.name(c.WorkflowID).active = r
	}
	switch {
	case owner != nil:
		p.grant(r, owner, c.Owner.Token, 0)
	case due != 0:
		p.park(r, due)
	default:
		p.makeReady(r)
	}
	return r.answer(c)
}

// answer says that the run of a request is there, created now or by an earlier try.
func (r *run) answer(c *store.Create) store.Created {
	answer := store.Created{Run: r.id, New: true}
	if c.Owner != nil && r.holds(c.Owner.Fence()) {
		answer.Fence = r.fence()
	}
	return answer
}

// ownerOf returns the session that will own a new run from its creation on, nil if
// the run waits for a worker; due is when it may start.
func (p *partition) ownerOf(c *store.Create, due int64) (*session, error) {
	switch {
	case c.Owner == nil:
		return nil, nil //nolint:nilnil // it waits for a worker
	case due != 0:
		return nil, store.ErrNotClaimable
	}
	return p.live(c.Owner.Session)
}

// createBehind answers a start whose workflow id has an active run.
func (p *partition) createBehind(n *name, c *store.Create) store.Created {
	switch c.Active {
	case store.ActiveFail:
		return store.Created{Err: &store.ActiveError{WorkflowID: c.WorkflowID, Run: n.active.id}}
	case store.ActiveCancel:
		if c.Owner != nil {
			return store.Created{Err: store.ErrNotClaimable}
		}
		r := p.insertWithItems(c)
		r.place = store.PlaceLined
		p.cancel(n.active, c.Cancel)
		for _, earlier := range n.line {
			p.cancel(earlier, c.Cancel)
		}
		n.line = append(n.line, r)
		return store.Created{Run: c.Run, New: true}
	}
	return store.Created{Run: n.active.id}
}

// cancel delivers the wish of a successor. A run that is closing gets it, too:
// the successor cannot be told to come again.
func (p *partition) cancel(r *run, item store.Item) {
	s := p.State(r)
	_ = p.op.Tell(r, &s, item) // a Tx in memory does not fail
	p.announce()
}

func refuses(policy store.FinishedPolicy, last event.Status) bool {
	switch policy {
	case store.FinishedReject:
		return true
	case store.FinishedAllowFailure:
		return last == event.StatusCompleted
	}
	return false
}

// insertWithItems is insert, and accepts what the run is created with. It is in no
// place, and so not woken.
func (p *partition) insertWithItems(c *store.Create) *run {
	r := p.insert(c, c.Run, c.Birth)
	s := p.State(r)
	for _, item := range c.Items {
		_ = p.op.Accept(r, &s, item, false) // a Tx in memory does not fail
	}
	return r
}

// insert stores the log and what is known of the run, in no place yet.
func (p *partition) insert(c *store.Create, chain event.RunID, createdBy event.ItemID) *run {
	r := &run{
		id: c.Run, chain: chain, wid: c.WorkflowID, class: p.class(c.Class), priority: c.Priority,
		frames: [][]byte{c.Frame}, seq: c.Seq, last: c.CID,
		status: cmp.Or(c.Status, event.StatusPending), created: p.now(),
	}
	retention := max(c.Retention, 0)
	if retention == store.DefaultRetention {
		retention = 0
	}
	if len(c.Tags) > 0 || c.Parent != "" || c.Root != "" || retention > 0 {
		r.extra = &extra{tags: c.Tags, parent: c.Parent, root: c.Root, retention: retention}
	}
	if createdBy != "" {
		r.links = &links{birth: createdBy}
	}
	if chain != c.Run {
		p.chained(chain).later++
	}
	p.add(r)
	return r
}

// startTime returns when a new run may start; 0: now.
func (p *partition) startTime(c *store.Create) int64 {
	now := p.clock.Now()
	due := c.At
	if c.Delay > 0 {
		if after := now.Add(c.Delay); after.After(due) {
			due = after
		}
	}
	if ms := millis(due); due.After(time.Time{}) && ms > now.UnixMilli() {
		return ms
	}
	return 0
}
