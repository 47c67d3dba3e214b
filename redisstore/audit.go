package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Audit returns the interventions into a run from outside of it, oldest first: the last
// thousand entries.
func (s *Store) Audit(ctx context.Context, run event.RunID) ([]store.AuditEntry, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	var there *redis.IntCmd
	var kept *redis.StringSliceCmd
	p := s.partitionOf(run)
	err := s.transaction(ctx, p, func(tx redis.Pipeliner) {
		there, kept = tx.Exists(ctx, p.meta(short(run))), tx.LRange(ctx, p.audit(short(run)), 0, -1)
	})
	var entries []store.AuditEntry
	if err == nil && there.Val() == 1 { // a deleted run is as if it were gone
		entries, err = auditOf(run, kept.Val())
	}
	if err != nil {
		return nil, fmt.Errorf("read audit trail of run %s: %w", run, err)
	}
	return entries, nil
}

// auditEntry is an entry as the scripts write it.
type auditEntry struct {
	Time       string          `json:"t"`
	Reason     store.Reason    `json:"w"`
	By         store.SessionID `json:"b"`
	Owner      store.SessionID `json:"o"`
	QueueState string          `json:"p"`
	Status     byte            `json:"s"`
	Epoch      string          `json:"e"`
}

func auditOf(run event.RunID, kept []string) ([]store.AuditEntry, error) {
	var all []store.AuditEntry
	for _, text := range kept {
		var e auditEntry
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			return nil, fmt.Errorf("%w: an entry of the audit trail: %w", errDamaged, err)
		}
		epoch, _ := strconv.ParseUint(e.Epoch, 16, 64) // of a run without metadata there is none
		all = append(all, store.AuditEntry{
			Time: timeOf(parseNumber(e.Time)), Run: run, Reason: e.Reason, By: e.By, Owner: e.Owner,
			QueueState: store.QueueState(parseNumber(e.QueueState)), Status: statusOf(e.Status), Epoch: epoch,
		})
	}
	return all, nil
}
