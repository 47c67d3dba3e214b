package sqlitestore

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// Deliver adds an item to the inbox of a run.
func (s *Store) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	run, err := performOn(ctx, s, d.Run, len(d.Item.Body), func(t *tx) (event.RunID, error) { return t.op.Deliver(&d) })
	if err != nil {
		return "", fmt.Errorf("deliver to run %s: %w", d.Run, err)
	}
	return run, nil
}

const selectNextSend = `SELECT due FROM outbox WHERE true /*readable sender*/ ORDER BY due LIMIT 1`

// nextSend returns the time at which the next record of the outbox is due. It returns the zero time
// if the outbox is empty.
func (t *tx) nextSend() (next time.Time, err error) {
	err = t.query(selectNextSend, func(r row) error {
		next = timeOf(cmp.Or(r.ColumnInt64(0), t.ms())) // a fresh record is due now
		return nil
	})
	return next, err
}

// Outbox returns the due records in the order in which they were written.
func (s *Store) Outbox(ctx context.Context, partition, limit int) ([]store.Outgoing, time.Time, error) {
	var records []store.Outgoing
	var next time.Time
	err := s.enterPartition(ctx, partition)
	if err == nil {
		err = s.readAside(ctx, func(c *conn) (err error) {
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
	// selectOutgoing finds the first due records in the index, and then reads only these. The index
	// sorts fresh records; the query sorts the others. Without the subqueries SQLite would read all
	// earlier records.
	selectOutgoing = `SELECT ` + outboxColumns + ` FROM outbox o JOIN runs r ON r.key = o.sender WHERE o.seq IN (
			SELECT seq FROM (SELECT seq FROM outbox INDEXED BY outbox_due WHERE due = 0 /*readable sender*/ ORDER BY seq LIMIT +?2)
			UNION ALL
			SELECT seq FROM (SELECT seq FROM outbox INDEXED BY outbox_due WHERE due > 0 AND due <= +?1 /*readable sender*/ ORDER BY seq LIMIT +?2)
		) ORDER BY o.seq LIMIT +?2`
	selectNextAfter = `SELECT due FROM outbox WHERE due > +? /*readable sender*/ ORDER BY due LIMIT 1`
)

// outgoing returns up to limit due records in the order in which they were written, and the time at
// which the next one is due. The due times of the records of one sender and receiver never
// decrease. So a record is returned only if all earlier ones are due.
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
		From: db.UnpackRun(r, 0), Phase: store.Phase(r.ColumnInt(3)), Since: timeOf(r.ColumnInt64(4)),
		Send: store.Send{ID: event.ItemID(r.ColumnText(1)), To: db.UnpackRun(r, 2), Body: blob(r, 5)},
	}
}

// Mark changes the phases of records in one transaction. If one of them fails because of damage,
// the others are changed in separate transactions.
func (s *Store) Mark(ctx context.Context, partition int, marks []store.Mark) error {
	err := s.enterPartition(ctx, partition)
	if err == nil && len(marks) > 0 {
		one := func(t *tx, m *store.Mark) (struct{}, error) { //nolint:unparam // inHalves wants an answer for each
			err := t.op.Mark(m)
			if err == nil {
				err = t.announce()
			}
			if err != nil {
				err = fmt.Errorf("record %s of run %s: %w", m.ID, m.From, err)
			}
			return struct{}{}, err
		}
		var damaged error
		_, err = inHalves(ctx, s, marks, one, func(m *store.Mark) (struct{}, error) {
			done, err := performOn(ctx, s, m.From, 0, func(t *tx) (struct{}, error) { return one(t, m) })
			if ofOneRun(err) {
				damaged, err = err, nil
			}
			return done, err
		})
		if err == nil {
			err = damaged
		}
	}
	if err != nil {
		return fmt.Errorf("mark %d records: %w", len(marks), err)
	}
	return nil
}

// AddRecord writes a record. It keeps an existing record.
func (t *tx) AddRecord(from *run, s *store.Send, now int64) (protocol.Record, error) {
	err := t.exec(`INSERT INTO outbox (sender, id, receiver, phase, since, due, body) VALUES (?, ?, ?, 1, ?, 0, ?)
		ON CONFLICT (sender, id) DO NOTHING`, from.key, string(s.ID), s.To, now, s.Body)
	if err != nil || t.Changes() == 0 {
		return protocol.Record{}, err
	}
	return protocol.Record{ID: s.ID, To: s.To, Phase: store.PhaseFresh, Order: t.LastInsertRowID()}, nil
}

// Record returns a record of a sender.
func (t *tx) Record(from *run, id event.ItemID) (protocol.Record, error) {
	var rec protocol.Record
	err := t.query(`SELECT seq, receiver, phase FROM outbox WHERE sender = +? AND id = +?`, func(r row) error {
		rec = protocol.Record{ID: id, Order: r.ColumnInt64(0), To: db.UnpackRun(r, 1), Phase: store.Phase(r.ColumnInt(2))}
		return nil
	}, from.key, string(id))
	return rec, err
}

// SetPhase sets the phase of a record, and the time at which it entered the phase.
func (t *tx) SetPhase(from *run, rec protocol.Record, phase store.Phase, now int64) error {
	due := now + store.Horizon.Milliseconds()
	if phase == store.PhaseFresh {
		due = 0
	}
	err := t.exec(`UPDATE outbox SET phase = ?, since = ?, due = ? WHERE seq = +?`, int(phase), now, due, rec.Order)
	if err != nil {
		return err
	}
	return t.keepOrder(recordOf(from, rec))
}

// RemoveRecord removes a record.
func (t *tx) RemoveRecord(_ *run, rec protocol.Record) error {
	return t.exec(`DELETE FROM outbox WHERE seq = +?`, rec.Order)
}

// HasBefore reports whether there is an earlier record of the same sender and receiver.
func (t *tx) HasBefore(from *run, rec protocol.Record) (bool, error) {
	n, err := t.number(`SELECT count(*) FROM (SELECT 1 FROM outbox
		WHERE sender = +? AND receiver = +? AND seq < +? LIMIT 1)`, from.key, rec.To, rec.Order)
	return n > 0, err
}

// Refresh makes the earlier answered records of the same sender and receiver fresh.
func (t *tx) Refresh(from *run, rec protocol.Record, now int64) error {
	err := t.exec(`UPDATE outbox SET phase = 1, since = ?, due = 0 WHERE sender = +? AND receiver = +? AND phase = 2 AND seq < +?`,
		now, from.key, rec.To, rec.Order)
	if err != nil {
		return err
	}
	return t.keepOrder(recordOf(from, rec))
}

// record contains the columns that determine the order of the records of one sender and receiver.
type record struct {
	seq      int64
	sender   int64
	receiver event.RunID
}

func recordOf(from *run, rec protocol.Record) *record {
	return &record{rec.Order, from.key, rec.To}
}

// keepOrder restores the order of due times after the phase of a record has changed. No answered
// record may be due before an earlier one of the same sender and receiver. In nearly all cases the
// order is already correct.
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
			return nil // all later records are in order as well
		}
		from = a.seq + 1
	}
}

const selectAnswered = `SELECT seq, since, due FROM outbox WHERE sender = +? AND receiver = +? AND phase = 2 AND `

// settling is an answered record. Its zero value means no record.
type settling struct{ seq, since, due int64 }

// answered returns the first answered record with the sender and receiver of o that satisfies
// where.
func (t *tx) answered(where string, o *record, seq int64) (a settling, err error) {
	err = t.query(selectAnswered+where+` LIMIT 1`, func(r row) error {
		a = settling{r.ColumnInt64(0), r.ColumnInt64(1), r.ColumnInt64(2)}
		return nil
	}, o.sender, o.receiver, seq)
	return a, err
}

// Confirm removes the data that a record has left at its receiver. The record will not be sent
// again.
func (s *Store) Confirm(ctx context.Context, run event.RunID, id event.ItemID) error {
	_, err := performOn(ctx, s, run, 0, func(t *tx) (struct{}, error) { return struct{}{}, t.op.Confirm(run, id) })
	if err != nil {
		return fmt.Errorf("confirm record %s to run %s: %w", id, run, err)
	}
	return nil
}
