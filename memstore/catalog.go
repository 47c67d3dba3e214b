package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/flowgen/flowgen/runtime/store"
)

var _ store.Cataloger = (*Store)(nil)

// catalog contains the descriptions of workflows by name.
type catalog struct {
	mu      sync.Mutex
	entries map[string][]byte
}

// Describe records the description of a workflow by a build.
func (s *Store) Describe(ctx context.Context, workflow string, v store.CatalogVersion) error {
	err := s.enter(ctx)
	c := &s.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	var packed []byte
	if err == nil {
		packed, _, err = store.DescribeIn(c.entries[workflow], workflow, v, s.clock.Now())
	}
	if err != nil {
		return fmt.Errorf("describe workflow %s: %w", workflow, err)
	}
	if c.entries == nil {
		c.entries = map[string][]byte{}
	}
	c.entries[workflow] = packed
	return nil
}

// Catalog returns a page of the entries of workflows.
func (s *Store) Catalog(ctx context.Context, q store.CatalogQuery) ([]store.CatalogEntry, error) {
	if err := s.enter(ctx); err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	kept := s.catalog.kept()
	found := []store.CatalogEntry{}
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		if q.Workflow != "" && name != q.Workflow || name <= q.After {
			continue
		}
		if e, err := store.UnpackCatalog(name, kept[name]); err == nil && len(found) < cmp.Or(max(q.Limit, 0), 100) {
			found = append(found, e)
		}
	}
	return found, nil
}

// kept returns all entries.
func (c *catalog) kept() map[string][]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.entries)
}
