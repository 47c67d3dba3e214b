package memstore

import (
	"slices"
	"sort"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

const (
	// dedupe is how long at least an accepted item is remembered.
	dedupe = 24 * time.Hour
	// linear is the number of ids up to which looking at each is as good as a map.
	linear = 16
)

// seen is what a chain has accepted. Most chains accept few items or none.
type seen struct {
	items []seenItem // in order of acceptance
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

// remember notes that a run accepts an item: until Confirm, or for the window for
// repetitions.
func (p *partition) remember(r *run, id event.ItemID, keep bool) {
	now := p.now()
	if !keep {
		s := p.seenOf(r.chain)
		s.prune(now, len(r.inbox))
		s.add(id, now)
		return
	}
	if p.kept[r.chain] == nil {
		p.kept[r.chain] = map[event.ItemID]int64{}
	}
	p.kept[r.chain][id] = now
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

// prune forgets what was accepted longer ago than the window for repetitions,
// but never the last unread ones: those are still in the inbox. It waits until
// that is half of all, so that it costs next to nothing per item.
func (s *seen) prune(now int64, unread int) {
	limit := now - dedupe.Milliseconds()
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
