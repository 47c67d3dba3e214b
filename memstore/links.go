package memstore

import (
	"bytes"
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// RepairLinks changes the outbox of a run and what others have left with it, if both
// are as they were examined.
func (e *partitionScan) RepairLinks(ctx context.Context, m store.LinkRepair) (bool, error) {
	if err := e.s.enter(ctx); err != nil {
		return false, fmt.Errorf("repair links of run %s: %w", m.Run, err)
	}
	p := e.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.linkable(&m) {
		return false, nil
	}
	r := p.runs[m.Run]
	if r != nil {
		p.audit(r, m.Reason, m.By)
	}
	for i := range m.Remove {
		p.outbox.remove(p.outbox.records[recordKey{m.Run, m.Remove[i].ID}])
	}
	for i := range m.Write {
		p.outbox.write(r, &m.Write[i], p.now())
	}
	for _, id := range m.Confirm {
		_ = p.op.Confirm(r.id, id)
	}
	if r != nil {
		p.reschedule(r)
	}
	return true, nil
}

// linkable reports whether everything is as it was examined.
func (p *partition) linkable(m *store.LinkRepair) bool {
	r := p.runs[m.Run]
	if r == nil && len(m.Write)+len(m.Confirm) > 0 {
		return false
	}
	removed := map[event.ItemID]bool{}
	for i := range m.Remove {
		seen := &m.Remove[i]
		o := p.outbox.records[recordKey{m.Run, seen.ID}]
		if o == nil || o.phase != seen.Phase || o.To != seen.To || !timeOf(o.since).Equal(seen.Since) || !bytes.Equal(o.Body, seen.Body) {
			return false
		}
		removed[seen.ID] = true
	}
	for _, s := range m.Write {
		if p.outbox.records[recordKey{m.Run, s.ID}] != nil && !removed[s.ID] {
			return false
		}
	}
	for _, id := range m.Confirm {
		_, kept := p.kept[r.chain][id]
		_, own := p.kept[r.id][id]
		if !kept && !own && (r.links == nil || r.links.createdBy != id) {
			return false
		}
	}
	return true
}
