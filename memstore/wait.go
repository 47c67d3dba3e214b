package memstore

import (
	"context"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/notify"
)

// Wait blocks until there may be something to do. If w.Until is zero, a due time that is earlier
// than all due times at the call also ends the wait.
func (s *Store) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	if err := s.enter(ctx); err != nil {
		return store.Woken{}, err
	}
	for _, o := range w.Sessions {
		if _, err := s.enterPartition(ctx, o.Partition); err != nil {
			return store.Woken{}, fmt.Errorf("wait for session %s: %w", o.Session, err)
		}
	}
	call := notify.NewCall(&w)
	for i, o := range w.Sessions {
		if !slices.ContainsFunc(w.Sessions[:i], func(before store.WaitSession) bool { return before.Partition == o.Partition }) {
			s.parts[o.Partition].join(call, w.Routes)
		}
	}
	return call.Wait(ctx, s.clock, s.done)
}

// join registers a call in the partition, and takes an existing wake.
func (p *partition) join(call *notify.Call, routes []store.Route) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := call.Join(p.waiters, p.number)
	w.Found(p.nextDue())
	for _, known := range routes {
		if c := p.routes[known]; c != nil && c.wake {
			c.wake = false
			w.Claim()
			return
		}
	}
}

// wake announces that a route may have claimable runs. It notifies the Wait that has been idle
// longest, or the next one if none is blocked.
func (p *partition) wake(c *route) {
	c.wake = c.wake || !p.waiters.Wake(c.Route)
}

// tell records that an owned run has a new item, and notifies the waiting call of the owner.
func (p *partition) tell(r *run) {
	r.owner.addUnread(r)
	p.waiters.Unread(r.owner.id, r.id, 0)
}

// Watch blocks until the log of a run has more than n frames or the run has ended.
func (s *Store) Watch(ctx context.Context, run event.RunID, n uint64) error {
	p := s.partitionOf(run)
	frames := p.frames.Subscribe(run)
	defer frames.Close()
	return frames.Await(ctx, notify.Awaiting[event.RunID, uint64]{Look: func() (uint64, bool, error) {
		if err := s.enter(ctx); err != nil {
			return 0, false, err
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		r := p.find(run)
		if r == nil {
			return 0, false, fmt.Errorf("watch run %s: %w", run, store.ErrRunNotFound)
		}
		has := uint64(len(r.frames))
		return has, store.Watched(n, has, r.queueState == store.StateEnded), nil
	}})
}

// Settled returns the number of Wait calls that are blocked and have no result. Test kits use it to
// determine whether all workers wait. It does not count calls that are about to return.
func (s *Store) Settled() int {
	n := 0
	for _, p := range s.parts {
		_, idle := p.waiters.Blocked()
		n += idle
	}
	return n
}
