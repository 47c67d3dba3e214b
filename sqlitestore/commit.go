package sqlitestore

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Commit appends frames and carries out effects, all in one transaction, which
// it shares with whatever else has arrived meanwhile. The answer comes when that
// transaction is in the file; Synchronous says what that means.
func (s *Store) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	if len(commits) == 0 {
		return nil, s.enter(ctx)
	}
	for i := range commits {
		if err := errors.Join(commits[i].CheckPublish(), continuable(&commits[i])); err != nil {
			return nil, err
		}
	}
	answers, err := s.commit(ctx, commits)
	if err != nil {
		return nil, fmt.Errorf("commit to %d runs: %w", len(commits), err)
	}
	return answers, nil
}

// commit carries out commits. If one of them meets damage, or is larger than a row may be, it
// takes the transaction with it: then each half is tried by itself, until that one is alone.
func (s *Store) commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	answers, err := perform(ctx, s, func(t *tx) ([]store.Committed, error) {
		answers := make([]store.Committed, len(commits))
		for i := range commits {
			var err error
			if answers[i], err = t.commit(&commits[i]); err != nil {
				return nil, fmt.Errorf("commit to run %s: %w", commits[i].Run, err)
			}
		}
		return answers, nil
	})
	if err == nil || !ofOneRun(err) {
		return answers, err
	}
	if len(commits) == 1 {
		return []store.Committed{{Err: aboutRun(commits[0].Run, len(commits[0].Frame), err)}}, nil
	}
	half := len(commits) / 2
	first, err := s.commit(ctx, commits[:half])
	if err != nil {
		return nil, err
	}
	second, err := s.commit(ctx, commits[half:])
	return append(first, second...), err
}

func (t *tx) commit(c *store.Commit) (store.Committed, error) {
	r, err := t.run(c.Run)
	if err != nil {
		return store.Committed{}, err
	}
	if r == nil {
		return store.Committed{Err: store.ErrFenced}, nil
	}
	if c.Frame != nil && r.last == c.CID { // an earlier try got through
		return store.Committed{N: r.n, Mail: r.holds(c.Fence) && r.inbox > 0}, nil
	}
	upTo, refused, err := t.guard(r, c)
	if err != nil || refused != nil {
		return store.Committed{Err: refused}, err
	}
	if err := t.apply(r, c, upTo); err != nil {
		return store.Committed{}, err
	}
	return store.Committed{N: r.n, Mail: r.place == store.PlaceOwned && r.inbox > 0}, nil
}

// guard is the guards of a commit, in their order. It returns the number of the
// last item to consume, or why the commit is refused.
func (t *tx) guard(r *run, c *store.Commit) (upTo int64, refused, err error) {
	switch {
	case !r.holds(c.Fence):
		return 0, store.ErrFenced, nil
	case c.WorkflowID != r.workflowID:
		return 0, &store.WorkflowIDMismatchError{Run: r.id, Got: c.WorkflowID, Want: r.workflowID}, nil
	case r.last != c.Prev:
		return 0, r.conflict(c, "it continues another frame"), nil
	case c.Frame != nil && c.First != r.seq+1:
		return 0, r.conflict(c, "it does not continue the sequence"), nil
	}
	upTo, err = t.consumable(r, c)
	switch {
	case err != nil:
		return 0, nil, err
	case c.Consume > 0 && upTo == 0:
		return 0, r.conflict(c, "it consumes items that the inbox does not hold"), nil
	case (c.Effect == store.EffectPark || c.Effect == store.EffectFinish) && r.inbox > max(c.Consume, 0):
		return 0, store.ErrMail, nil
	case c.Effect == store.EffectContinue:
		refused, err = t.guardContinue(r, c, upTo)
	}
	return upTo, refused, err
}

func (r *run) conflict(c *store.Commit, reason string) error {
	return &store.ConflictError{Run: r.id, Seq: c.First, StoredSeq: r.seq, Prev: c.Prev, Stored: r.last, Reason: reason}
}

// consumable returns the number of the last item to consume, 0 if that item is
// not the one that the commit names.
func (t *tx) consumable(r *run, c *store.Commit) (int64, error) {
	if c.Consume <= 0 || c.Consume > r.inbox {
		return 0, nil
	}
	var upTo int64
	err := t.query(`SELECT seq, id FROM inbox WHERE run = +? ORDER BY seq LIMIT 1 OFFSET +?`, func(row row) error {
		if event.ItemID(row.ColumnText(1)) == c.ConsumeLast {
			upTo = row.ColumnInt64(0)
		}
		return nil
	}, r.key, c.Consume-1)
	return upTo, err
}

// apply is the writes of a commit.
func (t *tx) apply(r *run, c *store.Commit, upTo int64) error {
	if c.Frame != nil {
		r.n, r.seq, r.last = r.n+1, c.Last, c.CID
		if err := t.appendFrame(r.key, r.n, c.Frame); err != nil {
			return err
		}
		t.news.frames = append(t.news.frames, r.id)
	}
	if upTo > 0 {
		if err := t.consume(r, c.Consume, upTo); err != nil {
			return err
		}
	}
	if err := t.send(r, c.Send); err != nil {
		return err
	}
	if err := t.publish(r.chain, c.Publish); err != nil {
		return err
	}
	if c.Progress {
		r.recoveries = 0
	}
	status := r.status
	if c.Status != "" {
		r.status = c.Status
	}
	r.closing = c.Closing && c.Effect == store.EffectNone
	r.exempt = c.Exempt.After(r.exempt, c.Progress)
	switch c.Effect {
	case store.EffectPark:
		return t.park(r, millis(c.Due))
	case store.EffectYield:
		return t.makeReady(r)
	case store.EffectBlock:
		if err := t.note(r); err != nil {
			return err
		}
		return t.block(r)
	case store.EffectFinish:
		return t.end(r)
	case store.EffectContinue:
		return t.continueAs(r, c.Continue)
	}
	if r.status != status {
		return t.save(r)
	}
	// The usual commit: no index knows any of these columns.
	return t.exec(`UPDATE runs SET n = ?, seq = ?, last = ?, recoveries = ?, closing = ? WHERE key = +?`,
		r.n, r.seq, r.last[:], r.recoveries, r.marks(), r.key)
}

// consume removes the first n items of the inbox, which end at number upTo.
func (t *tx) consume(r *run, n int, upTo int64) error {
	r.inbox -= n
	if r.inbox == 0 {
		t.news.mail(mailRead, r.session, r.id, 0)
	}
	if err := t.exec(`DELETE FROM inbox WHERE run = +? AND seq <= +?`, r.key, upTo); err != nil {
		return err
	}
	return t.setInbox(r)
}

func (t *tx) setInbox(r *run) error {
	return t.exec(`UPDATE runs SET inbox = ? WHERE key = +?`, r.inbox, r.key)
}
