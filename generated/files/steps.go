// Package files spreads over several files: the steps are in one that does not
// import the workflow package.
package files

import "context"

//flow:step
func (s *Store) load(ctx context.Context, id string) (Item, error) { return s.items[id], nil }

//flow:step
func double(ctx context.Context, item Item) (Item, error) { return item, nil }
