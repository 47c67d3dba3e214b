package memstore

import (
	"slices"
	"sort"

	"github.com/flowgen/flowgen/runtime/event"
)

// linear is the number of IDs up to which a linear search is as fast as a map.
const linear = 16

// seen contains the IDs of the items that a chain has accepted. Most chains accept few items or
// none.
type seen struct {
	items []seenItem // accepted IDs, in the order of acceptance
	index map[event.ItemID]struct{}
}

type seenItem struct {
	id event.ItemID
	at int64
}

// accepted reports whether a chain has accepted an item.
func (p *partition) accepted(chain event.RunID, id event.ItemID) bool {
	if s := p.seen[chain]; s != nil && s.has(id) {
		return true
	}
	_, ok := p.kept[chain][id]
	return ok
}

// Seen reports whether a chain has accepted an item.
func (p *partition) Seen(chain event.RunID, id event.ItemID) (bool, error) {
	return p.accepted(chain, id), nil
}

// Remember records that a chain has accepted an item.
func (p *partition) Remember(chain event.RunID, id event.ItemID, at int64, keep bool) error {
	if !keep {
		p.seenOf(chain).add(id, at)
		return nil
	}
	if p.kept[chain] == nil {
		p.kept[chain] = map[event.ItemID]int64{}
	}
	p.kept[chain][id] = at
	return nil
}

// ForgetSeen removes the IDs of items that were accepted before a time. It does so only if enough
// of them are that old.
func (p *partition) ForgetSeen(r *run, before int64) error {
	if s := p.seen[r.chain]; s != nil {
		s.prune(before, len(r.inbox))
	}
	return nil
}

// Unkeep removes an item ID that was kept until Confirm.
func (p *partition) Unkeep(chain event.RunID, id event.ItemID) error {
	if kept := p.kept[chain]; kept != nil {
		delete(kept, id)
		if len(kept) == 0 {
			delete(p.kept, chain)
		}
	}
	return nil
}

func (s *seen) has(id event.ItemID) bool {
	if s.index != nil {
		_, ok := s.index[id]
		return ok
	}
	return slices.ContainsFunc(s.items, func(i seenItem) bool { return i.id == id })
}

func (s *seen) add(id event.ItemID, now int64) {
	s.items = append(s.items, seenItem{id, now})
	switch {
	case s.index != nil:
		s.index[id] = struct{}{}
	case len(s.items) > linear:
		s.index = make(map[event.ItemID]struct{}, 2*linear)
		for _, i := range s.items {
			s.index[i.id] = struct{}{}
		}
	}
}

// prune removes the IDs that were accepted before limit. It keeps the last unread IDs, where unread
// is the number of items still in the inbox. It does nothing until at least half of all IDs can be
// removed, so that the cost per item is small.
func (s *seen) prune(limit int64, unread int) {
	if len(s.items) == 0 || s.items[0].at >= limit {
		return
	}
	old := sort.Search(len(s.items), func(i int) bool { return s.items[i].at >= limit })
	old = min(old, len(s.items)-unread)
	if 2*old < len(s.items) {
		return
	}
	for _, i := range s.items[:old] {
		delete(s.index, i.id)
	}
	s.items = slices.Clone(s.items[old:])
}
