package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

var _ store.Cataloger = (*Store)(nil)

// errCatalogMoving reports that the entry of a workflow was replaced concurrently in every attempt.
var errCatalogMoving = errors.New("others describe it all the time: try again")

// Describe stores the description of a workflow by a build in the catalogue in partition 0. It
// replaces an entry only if it is unchanged since it was read, so that concurrent workers do not
// overwrite each other's descriptions.
func (s *Store) Describe(ctx context.Context, workflow string, v store.CatalogVersion) error {
	if err := s.describeWorkflow(ctx, workflow, v); err != nil {
		return fmt.Errorf("describe workflow %s: %w", workflow, err)
	}
	return nil
}

func (s *Store) describeWorkflow(ctx context.Context, workflow string, v store.CatalogVersion) error {
	p := s.parts[0]
	for range 100 {
		if err := s.enter(ctx); err != nil {
			return err
		}
		var kept *redis.StringCmd
		if err := s.transaction(ctx, p, func(tx redis.Pipeliner) { kept = tx.HGet(ctx, p.catalog(), workflow) }); err != nil {
			return err
		}
		packed, changed, err := store.DescribeIn([]byte(kept.Val()), workflow, v, s.Clock().Now())
		if err != nil || !changed {
			return err
		}
		c := &call{script: scriptReplace, p: p, keys: []string{p.catalog()}, args: []any{inHash, workflow, kept.Val(), packed}, size: len(packed)}
		if err := s.doReplicated(ctx, c); err != nil {
			return err
		}
	}
	return errCatalogMoving
}

// Catalog returns the catalogue entries of workflows. It reads all entries, of which there are few.
func (s *Store) Catalog(ctx context.Context, q store.CatalogQuery) ([]store.CatalogEntry, error) {
	kept, err := s.catalogued(ctx, q.Workflow)
	if err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	found := []store.CatalogEntry{}
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		if name <= q.After {
			continue
		}
		if e, err := store.UnpackCatalog(name, []byte(kept[name])); err == nil && len(found) < cmp.Or(max(q.Limit, 0), 100) {
			found = append(found, e)
		}
	}
	return found, nil
}

// catalogued returns the stored entry of a workflow, or all entries.
func (s *Store) catalogued(ctx context.Context, workflow string) (map[string]string, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	p := s.parts[0]
	var one *redis.StringCmd
	var all *redis.MapStringStringCmd
	err := s.transaction(ctx, p, func(tx redis.Pipeliner) {
		if workflow == "" {
			all = tx.HGetAll(ctx, p.catalog())
		} else {
			one = tx.HGet(ctx, p.catalog(), workflow)
		}
	})
	switch {
	case err != nil:
		return nil, err
	case all != nil:
		return all.Val(), nil
	case one.Val() == "":
		return nil, nil
	}
	return map[string]string{workflow: one.Val()}, nil
}

func (v *view) showCatalog(snap *store.Snapshot) {
	if len(v.catalog.Val()) > 0 {
		snap.Catalog = map[string][]byte{}
	}
	for name, packed := range v.catalog.Val() {
		snap.Catalog[name] = []byte(packed)
	}
}

// lookAtCatalog finds entries of the catalogue that cannot be decoded.
func (e *partitionState) lookAtCatalog() {
	for _, name := range sortedKeys(e.catalog.Val()) {
		packed := e.catalog.Val()[name]
		if _, err := store.UnpackCatalog(name, []byte(packed)); err != nil {
			e.repairable(store.Defect{Invariant: 25, What: fmt.Sprintf("the catalogue has %.60q of workflow %.60q, which is no entry", packed, name), Explain: "it is shown to nobody"},
				"remove it: a worker that starts writes it again", swap{key: e.p.catalog(), kind: inHash, field: name, seen: packed})
		}
	}
}
