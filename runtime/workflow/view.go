package workflow

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

// View is a named filter of runs, shared by all users of the store: see [store.View].
type View = store.View

// Errors of views.
var (
	ErrViewNotFound = store.ErrViewNotFound
	ErrViewsFull    = store.ErrViewsFull
)

// Views returns the views that the store keeps, sorted by name. The error matches [ErrNotSupported]
// if it keeps none.
func (c *Client) Views(ctx context.Context) ([]View, error) {
	keeper, err := c.viewKeeper("read views")
	if err != nil {
		return nil, err
	}
	return keeper.Views(ctx)
}

// SaveView creates or replaces the view with this name; [OnBehalfOf] sets its author. When it
// returns nil the view is durable. The filter is a line that the store does not interpret. Errors:
// [ErrNotSupported], [ErrViewsFull], or a *[store.InvalidError] from [store.View.Check].
func (c *Client) SaveView(ctx context.Context, name, filter string) error {
	keeper, err := c.viewKeeper("save view")
	if err != nil {
		return err
	}
	return keeper.SaveView(ctx, View{Name: name, Filter: filter, By: behalf(ctx)})
}

// DeleteView removes a view. Errors: [ErrNotSupported] or [ErrViewNotFound].
func (c *Client) DeleteView(ctx context.Context, name string) error {
	keeper, err := c.viewKeeper("delete view")
	if err != nil {
		return err
	}
	return keeper.DeleteView(ctx, name)
}

func (c *Client) viewKeeper(what string) (store.ViewKeeper, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	keeper, ok := store.As[store.ViewKeeper](c.store)
	if !ok {
		return nil, fmt.Errorf("%s: %w", what, ErrNotSupported)
	}
	return keeper, nil
}
