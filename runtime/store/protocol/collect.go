package protocol

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// CollectTx is the access to the runs that collect starts.
type CollectTx[R comparable] interface {
	// Collecting returns the run that collects the starts of a key.
	Collecting(key string) (R, error)
	// Joined returns the run that a start has joined, or "" if it has joined none.
	Joined(start event.RunID) (event.RunID, error)
	// Join records that a start has joined a run. The store keeps the record for at least a
	// store.Horizon.
	Join(start event.RunID, r R, at int64) error
	// ReplaceItem replaces the first item of the inbox.
	ReplaceItem(r R, item store.Item) error
}

// collect adds a start to the run that collects the starts of its key, or creates that run. It
// first checks whether the start has joined a run before, because that run may have been claimed
// since. [L12]
func (o *Op[R, S]) collect(c *store.Create) (store.Created, error) {
	var none R
	joined, err := o.Tx.Joined(c.Run)
	if err != nil || joined != "" {
		return store.Created{Run: joined}, err
	}
	r, err := o.Tx.Collecting(c.Collect.Key)
	if err != nil {
		return store.Created{}, err
	}
	if r != none {
		return o.joinRun(r, c)
	}
	if len(c.Uses) > 0 {
		if err := o.guardUses(c, false); err != nil {
			return store.Created{}, err
		}
	}
	r, s, err := o.insert(c)
	if err != nil {
		return store.Created{}, err
	}
	s.Collect = c.Collect.Key
	return s.created(c), o.awaitMore(r, &s, c.Collect)
}

// joinRun adds the item of a start to an existing run.
func (o *Op[R, S]) joinRun(r R, c *store.Create) (store.Created, error) {
	s, now := o.Tx.State(r), o.Tx.Now()
	if err := o.Tx.ForgetSeen(r, now.Add(-Dedupe).UnixMilli()); err != nil {
		return store.Created{}, err
	}
	if c.Collect.Keep {
		if err := o.accept(r, &s, c.Items[0], false); err != nil {
			return store.Created{}, err
		}
	} else {
		if err := o.Tx.Remember(s.Chain, c.Items[0].ID, now.UnixMilli(), false); err != nil {
			return store.Created{}, err
		}
		if err := o.Tx.ReplaceItem(r, c.Items[0]); err != nil {
			return store.Created{}, err
		}
	}
	if err := o.Tx.Join(c.Run, r, now.UnixMilli()); err != nil {
		return store.Created{}, err
	}
	return store.Created{Run: s.ID}, o.awaitMore(r, &s, c.Collect)
}

// awaitMore makes a collecting run ready if it is full. Otherwise the run stays as it is until it
// is due. A ready run stays ready.
func (o *Op[R, S]) awaitMore(r R, s *Run[S], g *store.Collect) error {
	full := g.Full > 0 && s.Unread >= g.Full
	if full {
		s.Collect = ""
	}
	due := Millis(g.Due(Time(s.Created), o.Tx.Now()))
	switch {
	case s.QueueState == store.StateReady, s.QueueState == store.StateParked && !full && due == s.Due:
		return o.Tx.Save(r, *s)
	case full:
		return o.makeReady(r, s)
	}
	return o.park(r, s, due, store.UnusedNone)
}
