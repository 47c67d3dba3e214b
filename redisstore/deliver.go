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
	case "accepted":
		return long(a.text(1)), nil
	case "unknown":
		return "", store.ErrRunNotFound
	case "ended":
		return "", &store.TerminalError{Run: long(a.text(1)), Status: statusOf(byte(a.number(2)))}
	case "later":
		return "", store.ErrLater
	case "stale":
		return "", store.ErrStale
	}
	return "", unexpected(c)
}
