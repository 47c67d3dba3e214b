package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// SetLimits configures limits.
func (s *Store) SetLimits(ctx context.Context, partition int, set []store.SetLimit) error {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return fmt.Errorf("set limits: %w", err)
	}
	for i := range set {
		if err := set[i].Check(); err != nil {
			return fmt.Errorf("set limits: %w", err)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range set {
		_ = p.op.SetLimit(&set[i]) // set[i] is valid, and a Tx in memory does not fail
	}
	p.announce()
	return nil
}

// Limits returns a page of limits.
func (s *Store) Limits(ctx context.Context, partition int, after store.LimitID, limit int) ([]store.LimitState, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return nil, fmt.Errorf("list limits: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.DeleteFunc(p.limits.known(), func(id store.LimitID) bool { return compareIDs(id, after) <= 0 })
	slices.SortFunc(all, compareIDs)
	page := make([]store.LimitState, 0, len(all))
	for _, id := range all[:min(len(all), cmp.Or(limit, 100))] {
		page = append(page, p.limitState(id))
	}
	return page, nil
}

// Turns returns the states of the given limits and keys.
func (s *Store) Turns(ctx context.Context, partition int, ids []store.LimitID) ([]store.Turn, error) {
	p, err := s.enterPartition(ctx, partition)
	if err != nil {
		return nil, fmt.Errorf("read positions in limiter queues: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	all := make([]store.Turn, len(ids))
	for i, id := range ids {
		first, _ := limitTx{p}.FirstKept(id)
		all[i] = store.Turn{LimitState: p.limitState(id), First: first.First}
	}
	return all, nil
}

// known returns the limits and keys that have a state or a configuration.
func (x *limits) known() []store.LimitID {
	known := map[store.LimitID]bool{}
	for id := range x.parts {
		known[id] = true
	}
	for name, c := range x.configs {
		if c.code != nil || c.set != nil {
			known[store.LimitID{Name: name}] = true
		}
		for key := range c.keys {
			known[store.LimitID{Name: name, Key: key}] = true
		}
	}
	return slices.Collect(maps.Keys(known))
}

func compareIDs(a, b store.LimitID) int {
	return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Key, b.Key))
}

func (p *partition) limitState(id store.LimitID) store.LimitState {
	l, _ := limitTx{p}.Limit(id)
	_, set, code := p.limits.config(id)
	return store.LimitState{
		LimitID: id, Config: l.LimitConfig, Set: set, Default: code, Held: l.Held, Waits: l.Waits, Away: l.Away, Next: timeOf(l.Next(p.clock.Now())),
	}
}

// inspectLimits adds the limits and the limiter queues to a snapshot.
func (p *partition) inspectLimits(snap *store.Snapshot) {
	for _, id := range p.limits.known() {
		snap.Limits[id] = p.limitState(id)
	}
	for id, f := range p.fairKeys {
		snap.FairKeys[id] = f.Waits
	}
	for _, l := range slices.SortedFunc(maps.Values(p.limits.lines), (*line).compare) {
		shown := store.WaitingQueue{
			Route: l.route.Route, Uses: l.uses, Until: timeOf(l.until),
			Closed: l.mode == protocol.QueueClosed, Admitted: l.mode == protocol.QueueAdmitted, Stands: l.counts, Owed: l.owed,
		}
		for r := range l.runs {
			shown.Runs = append(shown.Runs, r.id)
		}
		snap.Waiting = append(snap.Waiting, shown)
	}
}

// runs yields the runs of a queue in the order of their positions.
func (l *line) runs(yield func(*run) bool) {
	for i := range l.levels {
		if !l.levels[i].all(yield) {
			return
		}
	}
}
