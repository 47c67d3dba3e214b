package sqlitestore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// send writes the records of a commit. One that is there already stays.
func (t *tx) send(r *run, records []store.Send) error {
	for _, s := range records {
		err := t.exec(`INSERT INTO outbox (sender, id, receiver, phase, since, due, body) VALUES (?, ?, ?, 1, ?, 0, ?)
			ON CONFLICT (sender, id) DO NOTHING`, r.key, string(s.ID), packRun(s.To), t.ms(), s.Body)
		if err != nil {
			return err
		}
	}
	return nil
}

const selectNextSend = `SELECT due FROM outbox ORDER BY due LIMIT 1`

// nextSend returns when there is something to do for the outbox, zero if it is
// empty.
func (t *tx) nextSend() (next time.Time, err error) {
	err = t.query(selectNextSend, func(r row) error {
		next = timeOf(cmp.Or(r.ColumnInt64(0), t.ms())) // a fresh record: now
		return nil
	})
	return next, err
}

// Outbox returns records for which something is to be done, those that were
// written first before others.
func (s *Store) Outbox(ctx context.Context, partition, limit int) ([]store.Outgoing, time.Time, error) {
	var records []store.Outgoing
	var next time.Time
	err := s.enterPartition(ctx, partition)
	if err == nil {
		err = s.read(ctx, func(c *conn) (err error) {
			records, next, err = c.outgoing(s.clock.Now(), max(limit, 0))
			return err
		})
	}
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read outbox: %w", err)
	}
	return records, next, nil
}

const (
	outboxColumns = `r.id, o.id, o.receiver, o.phase, o.since, o.body`
	// selectOutgoing finds the first records that are due by the index alone, and
	// then reads those. Fresh ones are in order there, the others are sorted. Left
	// to itself SQLite would go through all records that were written before.
	selectOutgoing = `SELECT ` + outboxColumns + ` FROM outbox o JOIN runs r ON r.key = o.sender WHERE o.seq IN (
			SELECT seq FROM (SELECT seq FROM outbox INDEXED BY outbox_due WHERE due = 0 ORDER BY seq LIMIT +?2)
			UNION ALL
			SELECT seq FROM (SELECT seq FROM outbox INDEXED BY outbox_due WHERE due > 0 AND due <= +?1 ORDER BY seq LIMIT +?2)
		) ORDER BY o.seq LIMIT +?2`
	selectNextAfter = `SELECT due FROM outbox WHERE due > +? ORDER BY due LIMIT 1`
)

// outgoing returns up to limit records that are due, in the order in which they
// were written, and when the next one is. A record of a pair that is due no
// earlier than those before it cannot be returned without them.
func (c *conn) outgoing(now time.Time, limit int) (records []store.Outgoing, next time.Time, err error) {
	err = c.query(selectOutgoing, func(r row) error {
		if len(records) == limit {
			next = timeOf(now.UnixMilli())
			return nil
		}
		o := scanOutgoing(r)
		o.Deadline = now.Add(store.Horizon / 2)
		records = append(records, o)
		return nil
	}, now.UnixMilli(), limit+1)
	if err != nil || !next.IsZero() {
		return records, next, err
	}
	after, err := c.number(selectNextAfter, now.UnixMilli())
	return records, timeOf(after), err
}

func scanOutgoing(r row) store.Outgoing {
	return store.Outgoing{
		From: unpackRun(r, 0), Phase: store.Phase(r.ColumnInt(3)), Since: timeOf(r.ColumnInt64(4)),
		Send: store.Send{ID: event.ItemID(r.ColumnText(1)), To: unpackRun(r, 2), Body: blob(r, 5)},
	}
}

// Mark moves records on, all of them in one transaction.
func (s *Store) Mark(ctx context.Context, partition int, marks []store.Mark) error {
	err := s.enterPartition(ctx, partition)
	if err == nil && len(marks) > 0 {
		_, err = perform(ctx, s, func(t *tx) (struct{}, error) {
			for i := range marks {
				if err := t.mark(&marks[i]); err != nil {
					return struct{}{}, fmt.Errorf("record %s of run %s: %w", marks[i].ID, marks[i].From, err)
				}
			}
			return struct{}{}, nil
		})
	}
	if err != nil {
		return fmt.Errorf("mark %d records: %w", len(marks), err)
	}
	return nil
}

// record is a record of the outbox, without what it says.
type record struct {
	seq      int64
	sender   int64
	receiver any // as it is stored
	phase    store.Phase
}

func (t *tx) mark(m *store.Mark) error {
	from, err := t.anyRun(m.From)
	if err != nil || from == nil {
		return err
	}
	var o *record
	err = t.query(`SELECT seq, receiver, phase FROM outbox WHERE sender = +? AND id = +?`, func(r row) error {
		o = &record{r.ColumnInt64(0), from.key, packRun(unpackRun(r, 1)), store.Phase(r.ColumnInt(2))}
		return nil
	}, from.key, string(m.ID))
	if err != nil || o == nil || o.phase != m.Phase {
		return err
	}
	if m.Unknown {
		if unsettled, err := t.takeBack(o); err != nil || unsettled {
			return err
		}
	}
	if m.Refusal != nil {
		if err := t.refuseSender(from, *m.Refusal); err != nil {
			return err
		}
	}
	return t.moveOn(o, from)
}

// refuseSender tells the sender that a record was refused, unless it has ended
// or knows. One that is closing is told, too: nobody can be asked to come again.
func (t *tx) refuseSender(r *run, item store.Item) error {
	if r.place == store.PlaceEnded {
		return nil
	}
	seen, err := t.seen(r.chain, item.ID)
	if err != nil || seen {
		return err
	}
	return t.push(r, item, false)
}

// moveOn puts a record into its next phase, or removes it.
func (t *tx) moveOn(o *record, from *run) error {
	switch o.phase {
	case store.PhaseFresh:
		return t.setPhase(o, store.PhaseAnswered)
	case store.PhaseAnswered:
		return t.setPhase(o, store.PhaseNote)
	}
	if err := t.exec(`DELETE FROM outbox WHERE seq = +?`, o.seq); err != nil {
		return err
	}
	return t.release(from)
}

// setPhase puts a record into a phase, from now on.
func (t *tx) setPhase(o *record, phase store.Phase) error {
	due := t.ms() + store.Horizon.Milliseconds()
	if phase == store.PhaseFresh {
		due = 0
	}
	err := t.exec(`UPDATE outbox SET phase = ?, since = ?, due = ? WHERE seq = +?`, int(phase), t.ms(), due, o.seq)
	if err != nil {
		return err
	}
	return t.keepOrder(o)
}

// keepOrder makes the answered records of a pair due in their order again, none
// before the one before it, after the phase of one has changed. Nearly always
// they are.
func (t *tx) keepOrder(o *record) error {
	before, err := t.answered(`seq < +? ORDER BY seq DESC`, o, o.seq)
	if err != nil {
		return err
	}
	due := before.due
	for from := o.seq; ; {
		a, err := t.answered(`seq >= +? ORDER BY seq`, o, from)
		if err != nil || a.seq == 0 {
			return err
		}
		due = max(due, a.since+store.Horizon.Milliseconds())
		if a.due != due {
			if err := t.exec(`UPDATE outbox SET due = ? WHERE seq = +?`, due, a.seq); err != nil {
				return err
			}
		} else if a.seq != o.seq {
			return nil // and so are all behind it
		}
		from = a.seq + 1
	}
}

const selectAnswered = `SELECT seq, since, due FROM outbox WHERE sender = +? AND receiver = +? AND phase = 2 AND `

// settling is an answered record; the zero value is none.
type settling struct{ seq, since, due int64 }

// answered returns the first answered record of the pair of o that is where says.
func (t *tx) answered(where string, o *record, seq int64) (a settling, err error) {
	err = t.query(selectAnswered+where+` LIMIT 1`, func(r row) error {
		a = settling{r.ColumnInt64(0), r.ColumnInt64(1), r.ColumnInt64(2)}
		return nil
	}, o.sender, o.receiver, seq)
	return a, err
}

// takeBack makes a record, whose receiver is not there, and the answered ones
// before it fresh again, if any of its pair before it is not settled. It reports
// whether it did. A note was settled: its receiver may be purged.
func (t *tx) takeBack(o *record) (bool, error) {
	if o.phase == store.PhaseNote {
		return false, nil
	}
	unsettled, err := t.number(`SELECT count(*) FROM (SELECT 1 FROM outbox
		WHERE sender = +? AND receiver = +? AND phase IN (1, 2) AND seq < +? LIMIT 1)`, o.sender, o.receiver, o.seq)
	if err != nil || unsettled == 0 {
		return false, err
	}
	err = t.exec(`UPDATE outbox SET phase = 1, since = ?, due = 0 WHERE sender = +? AND receiver = +? AND phase = 2 AND seq < +?`,
		t.ms(), o.sender, o.receiver, o.seq)
	switch {
	case err != nil:
	case o.phase == store.PhaseAnswered:
		err = t.setPhase(o, store.PhaseFresh)
	default:
		err = t.keepOrder(o)
	}
	return true, err
}

// Confirm makes a run forget a record that nobody will send again.
func (s *Store) Confirm(ctx context.Context, run event.RunID, id event.ItemID) error {
	_, err := perform(ctx, s, func(t *tx) (struct{}, error) { return struct{}{}, t.confirm(run, id) })
	if err != nil {
		return fmt.Errorf("confirm record %s to run %s: %w", id, run, err)
	}
	return nil
}

func (t *tx) confirm(run event.RunID, id event.ItemID) error {
	r, err := t.anyRun(run)
	if err != nil || r == nil {
		return err
	}
	if err := t.exec(`DELETE FROM seen WHERE chain = +? AND id = +? AND keep = 1`, packRun(r.chain), string(id)); err != nil {
		return err
	}
	if err := t.exec(`UPDATE runs SET birth = NULL WHERE key = +? AND birth = +?`, r.key, string(id)); err != nil {
		return err
	}
	if t.Changes() == 0 {
		return nil
	}
	return t.release(r)
}
