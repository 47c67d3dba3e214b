package sqlitestore

import (
	"cmp"
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

var _ store.Cataloger = (*Store)(nil)

// Describe records the description of a workflow by a build. It reads the entry first, because it
// almost always contains the description already.
func (s *Store) Describe(ctx context.Context, workflow string, v store.CatalogVersion) error {
	changed := false
	err := s.read(ctx, func(c *conn) error {
		kept, err := c.catalogued(workflow)
		if err == nil {
			_, changed, err = store.DescribeIn(kept, workflow, v, s.clock.Now())
		}
		return err
	})
	if err == nil && changed {
		err = s.write(ctx, func(t *tx) error {
			kept, err := t.catalogued(workflow) // read again in the transaction
			if err != nil {
				return err
			}
			packed, changed, err := store.DescribeIn(kept, workflow, v, s.clock.Now())
			if err != nil || !changed {
				return err
			}
			return t.exec(`INSERT INTO catalog VALUES (?1, ?2) ON CONFLICT DO UPDATE SET entry = excluded.entry`, workflow, packed)
		})
	}
	if err != nil {
		return fmt.Errorf("describe workflow %s: %w", workflow, err)
	}
	return nil
}

// catalogued returns the entry of a workflow, or nil.
func (c *conn) catalogued(workflow string) (body []byte, err error) {
	err = c.query(`SELECT entry FROM catalog WHERE workflow = ?`, func(r row) error {
		body = blob(r, 0)
		return nil
	}, workflow)
	return body, err
}

// Catalog returns the entries of workflows.
func (s *Store) Catalog(ctx context.Context, q store.CatalogQuery) ([]store.CatalogEntry, error) {
	found := []store.CatalogEntry{}
	limit := cmp.Or(max(q.Limit, 0), 100)
	err := s.read(ctx, func(c *conn) error {
		for after := q.After; len(found) < limit; { // unreadable entries do not shorten a page
			n := 0
			err := c.query(`SELECT workflow, entry FROM catalog WHERE workflow > +?1 AND (?2 = '' OR workflow = ?2) ORDER BY workflow LIMIT +?3`, func(r row) error {
				n++
				after = r.ColumnText(0)
				if e, err := store.UnpackCatalog(after, blob(r, 1)); err == nil {
					found = append(found, e)
				}
				return nil
			}, after, q.Workflow, limit-len(found))
			if err != nil || n == 0 {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	return found, nil
}

// inspectCatalog adds all entries to a snapshot.
func (c *conn) inspectCatalog(snap *store.Snapshot) error {
	snap.Catalog = map[string][]byte{}
	return c.query(`SELECT workflow, entry FROM catalog`, func(r row) error {
		snap.Catalog[r.ColumnText(0)] = blob(r, 1)
		return nil
	})
}
