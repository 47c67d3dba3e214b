package memstore

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/flowgen/flowgen/runtime/store"
)

var _ store.Entries = (*Store)(nil)

// entries contains the entries of each space, in the order of their keys.
type entries struct {
	mu sync.Mutex
	of map[string][]store.Entry
}

// entryAt returns the index of a key in the entries of a space, or the index at which to insert it.
func entryAt(all []store.Entry, key string) (i int, found bool) {
	return slices.BinarySearchFunc(all, key, func(e store.Entry, key string) int { return strings.Compare(e.Key, key) })
}

// WriteEntry writes or removes an entry. It also removes the entries that exceed the bounds of
// their space.
func (s *Store) WriteEntry(ctx context.Context, w store.EntryWrite) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	if err := w.Check(); err != nil {
		return err
	}
	s.entries.mu.Lock()
	defer s.entries.mu.Unlock()
	all := s.entries.of[w.Space]
	i, found := entryAt(all, w.Key)
	var old []byte
	if found {
		old = all[i].Value
	}
	if err := w.Refused(old, found, func() (int, error) { return len(all), nil }); err != nil {
		return err
	}
	w.Value = slices.Clone(w.Value)
	switch {
	case len(w.Value) == 0 && found:
		all = slices.Delete(all, i, i+1)
	case found:
		all[i] = w.Entry
	case len(w.Value) > 0:
		all = slices.Insert(all, i, w.Entry)
	}
	below, _ := entryAt(all, w.Keep.From)
	all = slices.Delete(all, 0, min(below, store.EntryTrim))
	if many := len(all) - w.Keep.Most; w.Keep.Most > 0 && many > 0 {
		all = slices.Delete(all, 0, min(many, store.EntryTrim))
	}
	s.entries.of[w.Space] = all
	return nil
}

// Entries returns the entries of a space that match the query.
func (s *Store) Entries(ctx context.Context, q store.EntryQuery) ([]store.Entry, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	s.entries.mu.Lock()
	defer s.entries.mu.Unlock()
	all := s.entries.of[q.Space]
	if q.Below != "" {
		end, _ := entryAt(all, q.Below)
		all = all[:end]
	}
	first, _ := entryAt(all, q.From)
	all = all[first:]
	n := min(len(all), q.Max())
	if !q.Newest {
		return slices.Clone(all[:n]), nil
	}
	all = slices.Clone(all[len(all)-n:])
	slices.Reverse(all)
	return all, nil
}

// all returns the entries of all spaces.
func (a *entries) all() (all []store.Entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, space := range slices.Sorted(maps.Keys(a.of)) {
		all = append(all, a.of[space]...)
	}
	return all
}
