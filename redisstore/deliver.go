package redisstore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Deliver puts an item into an inbox. Its id is remembered for a day at least.
func (s *Store) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	if err := s.enter(ctx); err != nil {
		return "", err
	}
	p := s.partitionOf(d.Run)
	deadline := int64(0)
	if !d.Deadline.IsZero() {
		deadline = max(d.Deadline.UnixMilli(), 1)
	}
	c := &call{
		script: scriptDeliver, p: p, keys: []string{p.meta(short(d.Run))},
		args: []any{s.at(), short(d.Run), deadline, string(d.Item.ID), packItem(d.Item)},
	}
	err := s.doReplicated(ctx, c)
	if err == nil {
		err = delivered(&d, c)
	}
	if err != nil {
		return "", fmt.Errorf("deliver to run %s: %w", d.Run, err)
	}
	return d.Run, nil
}

func delivered(d *store.Deliver, c *call) error {
	a := c.answer()
	switch a.word() {
	case "accepted":
		return nil
	case "unknown":
		return store.ErrRunNotFound
	case "ended":
		return &store.TerminalError{Run: d.Run, Status: unpackStatus(a.text(1))}
	case "later":
		return store.ErrLater
	case "stale":
		return store.ErrStale
	}
	return unexpected(c)
}
