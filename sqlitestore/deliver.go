package sqlitestore

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// dedupe is how long at least an accepted item is remembered.
const dedupe = 24 * time.Hour

// Deliver puts an item into an inbox.
func (s *Store) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	run, err := perform(ctx, s, func(t *tx) (event.RunID, error) { return t.deliver(&d) })
	if err != nil {
		return "", fmt.Errorf("deliver to run %s: %w", d.Run, err)
	}
	return run, nil
}

func (t *tx) deliver(d *store.Deliver) (event.RunID, error) {
	if t.late(d.Deadline) {
		return "", refuse(store.ErrStale)
	}
	r, err := t.receiver(d)
	if err != nil {
		return "", err
	}
	if r == nil {
		return "", refuse(store.ErrRunNotFound)
	}
	seen, err := t.seen(r.chain, d.Item.ID)
	if err != nil {
		return "", err
	}
	switch {
	case seen: // before "ended": what was accepted stays accepted
		return r.id, nil
	case r.place == store.PlaceEnded:
		return "", refuse(&store.TerminalError{Run: r.id, Status: r.status})
	case r.closing:
		return "", refuse(store.ErrLater)
	}
	return r.id, t.push(r, d.Item, d.Keep)
}

// late reports whether a request with that deadline comes too late.
func (t *tx) late(deadline time.Time) bool {
	return !deadline.IsZero() && t.now.After(deadline)
}

// receiver returns the run that an item is for: the one named, or the last of
// its chain; nil if there is none. If the last one is gone, the one named answers
// for the chain.
func (t *tx) receiver(d *store.Deliver) (*run, error) {
	r, err := t.run(d.Run)
	if err != nil || r == nil || d.Item.Scope == store.ScopeRun || r.place != store.PlaceEnded {
		return r, err // a run that has not ended is the last of its chain
	}
	tip := r.id
	err = t.query(`SELECT tip FROM runs WHERE id = +? AND tip IS NOT NULL`, func(row row) error {
		tip = unpackRun(row, 0)
		return nil
	}, packRun(r.chain))
	if err != nil || tip == r.id {
		return r, err
	}
	if last, err := t.run(tip); err != nil || last != nil {
		return last, err
	}
	return r, nil
}

// seen reports whether the chain has accepted the item.
func (t *tx) seen(chain event.RunID, id event.ItemID) (bool, error) {
	n, err := t.number(`SELECT count(*) FROM seen WHERE chain = +? AND id = +?`, packRun(chain), string(id))
	return n > 0, err
}

// push accepts an item, and tells whoever reads it.
func (t *tx) push(r *run, item store.Item, keep bool) error {
	if err := t.forget(r); err != nil {
		return err
	}
	seq, err := t.accept(r, item, keep)
	if err != nil {
		return err
	}
	switch r.place {
	case store.PlaceParked:
		return t.makeReady(r)
	case store.PlaceOwned:
		t.news.mail(mailNew, r.session, r.id, seq)
	}
	return t.setInbox(r)
}

// accept writes an item into inbox and seen, and returns its number. With keep it is
// remembered until it is confirmed. The caller saves how many items the run has.
func (t *tx) accept(r *run, item store.Item, keep bool) (seq int64, err error) {
	if err := t.exec(`INSERT INTO seen VALUES (?, ?, ?, ?)`, packRun(r.chain), string(item.ID), t.ms(), keep); err != nil {
		return 0, err
	}
	if seq, err = t.next(); err != nil {
		return 0, err
	}
	err = t.exec(`INSERT INTO inbox VALUES (?, ?, ?, ?, ?)`, r.key, seq, string(item.ID), int(item.Scope), item.Body)
	if err != nil {
		return 0, err
	}
	r.inbox++
	return seq, nil
}

// forget removes what the chain accepted longer ago than the window for
// repetitions, but nothing that is kept or still in the inbox.
func (t *tx) forget(r *run) error {
	return t.exec(`DELETE FROM seen WHERE chain = +? AND keep = 0 AND at < +? AND id NOT IN (SELECT id FROM inbox WHERE run = +?)`,
		packRun(r.chain), t.ms()-dedupe.Milliseconds(), r.key)
}
