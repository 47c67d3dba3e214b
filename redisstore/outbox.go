package redisstore

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Deliver adds an item to an inbox. The store remembers the ID of the item for at least a day.
func (s *Store) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	p := s.partitionOf(d.Run)
	c := &call{
		script: scriptDeliver, p: p, keys: []string{p.meta(short(d.Run))},
		args: []any{
			s.at(), short(d.Run), deadline(d.Deadline), string(d.Item.ID), packItem(d.Item),
			flag(d.Item.Scope == store.ScopeRun, "r"), flag(d.Keep, "k"), flag(d.Urgent, "u"),
		},
	}
	err := s.doReplicated(ctx, c)
	if err != nil {
		return "", fmt.Errorf("deliver to run %s: %w", d.Run, err)
	}
	run, err := delivered(c)
	if err != nil {
		return "", fmt.Errorf("deliver to run %s: %w", d.Run, err)
	}
	return run, nil
}

func delivered(c *call) (event.RunID, error) {
	a := c.answer()
	switch a.word() {
	case answerAccepted:
		return long(a.text(1)), nil
	case refusedUnknown:
		return "", store.ErrRunNotFound
	case refusedEnded:
		return "", &store.TerminalError{Run: long(a.text(1)), Status: statusOf(byte(a.number(2)))}
	case refusedLater:
		return "", store.ErrLater
	case refusedStale:
		return "", store.ErrStale
	}
	return "", unexpected(c)
}

// Outbox returns at most limit due records, those that have been due for longest first.
func (s *Store) Outbox(ctx context.Context, partition, limit int) ([]store.Outgoing, time.Time, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return nil, time.Time{}, fmt.Errorf("read outbox: %w", err)
	}
	c := &call{
		script: scriptOutbox, p: p, keys: []string{p.outbox()},
		args: []any{s.at(), max(limit, 0), chores},
	}
	if err := s.do(ctx, c); err != nil {
		return nil, time.Time{}, fmt.Errorf("read outbox: %w", err)
	}
	a := c.answer()
	late := a.time(0).Add(store.Horizon / 2)
	var records []store.Outgoing
	for _, one := range a[min(2, len(a)):] {
		if finding, is := one.(string); is {
			s.findings(p, []string{finding})
			continue
		}
		list, _ := one.([]any)
		r := answer(list)
		records = append(records, store.Outgoing{
			Send: store.Send{ID: event.ItemID(r.text(1)), To: event.RunID(r.text(4)), Body: []byte(r.text(5))},
			From: long(r.text(0)), Phase: store.Phase(parseNumber(r.text(2))), Since: r.time(3), Deadline: late,
		})
	}
	return records, a.time(1), nil
}

// markBatch is the maximum number of records that one script marks.
const markBatch = 100

// Mark moves outbox records to their next phases. Each action moves at most a hundred records.
func (s *Store) Mark(ctx context.Context, partition int, marks []store.Mark) error {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return fmt.Errorf("mark %d records: %w", len(marks), err)
	}
	var calls []*call
	for i, m := range marks {
		if s.partitionOf(m.From) != p {
			return fmt.Errorf("mark record %s: run %s is not in partition %d", m.ID, m.From, partition)
		}
		if i%markBatch == 0 {
			calls = append(calls, &call{
				script: scriptMark, p: p, keys: []string{p.outbox()}, args: []any{s.at(), store.Horizon.Milliseconds()},
			})
		}
		refusal := ""
		if m.Refusal != nil {
			refusal = packItem(*m.Refusal)
		}
		last := calls[len(calls)-1]
		last.args = append(last.args, short(m.From), string(m.ID), int(m.Phase), flag(m.Unknown, "u"), refusal, deadline(m.Deadline))
	}
	if err := s.doReplicated(ctx, calls...); err != nil {
		return fmt.Errorf("mark %d records: %w", len(marks), err)
	}
	return nil
}

// Confirm removes the data that a settled record has left with its receiver.
func (s *Store) Confirm(ctx context.Context, run event.RunID, record event.ItemID) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	p := s.partitionOf(run)
	c := &call{
		script: scriptConfirm, p: p, keys: []string{p.meta(short(run)), p.hidden(short(run))},
		args: []any{short(run), string(record)},
	}
	if err := s.do(ctx, c); err != nil {
		return fmt.Errorf("confirm record %s to run %s: %w", record, run, err)
	}
	return nil
}
