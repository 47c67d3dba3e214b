// This file has steps, and does not import the workflow package.

package methods

import "context"

//flow:step
func (s *Store) load(ctx context.Context, id string) (Item, error) { return s.items[id], nil }

//flow:step
func double(ctx context.Context, item Item) (Item, error) { return item, nil }
