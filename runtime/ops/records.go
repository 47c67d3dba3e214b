package ops

import (
	"context"

	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/store"
)

// View is a named filter of runs that all users of the store share, see [store.View].
type View = store.View

// Errors of views.
var (
	ErrViewNotFound = store.ErrViewNotFound
	ErrViewsFull    = store.ErrViewsFull
)

// Views returns the views of the store, sorted by name. The error matches workflow.ErrNotSupported
// if the store keeps no views.
func (c *Client) Views(ctx context.Context) ([]View, error) {
	entries, err := capability[store.Entries](c, "read views")
	if err != nil {
		return nil, err
	}
	return store.Views(ctx, entries)
}

// SaveView creates or replaces the view with this name. [workflow.OnBehalfOf] sets the author of
// the view. When SaveView returns nil, the view is durable. The store keeps the text of the filter
// and does not interpret it. Errors: workflow.ErrNotSupported, [ErrViewsFull], or a
// *[store.InvalidError] from [store.View.Check].
func (c *Client) SaveView(ctx context.Context, name, filter string) error {
	entries, err := capability[store.Entries](c, "save view")
	if err != nil {
		return err
	}
	return store.SaveView(ctx, entries, View{Name: name, Filter: filter, By: flow.Behalf(ctx)})
}

// DeleteView deletes a view. Errors: workflow.ErrNotSupported or [ErrViewNotFound].
func (c *Client) DeleteView(ctx context.Context, name string) error {
	entries, err := capability[store.Entries](c, "delete view")
	if err != nil {
		return err
	}
	return store.DeleteView(ctx, entries, name)
}

// Journal returns a page of the journal of operator requests, newest entry first. The error matches
// workflow.ErrNotSupported if the store keeps no journal.
func (c *Client) Journal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error) {
	entries, err := capability[store.Entries](c, "read the journal")
	if err != nil {
		return store.JournalPage{}, err
	}
	return store.Journal(ctx, entries, q)
}

// WriteJournal writes a journal entry and returns its ID, see [store.WriteJournal]. If the entry
// has no ID, WriteJournal makes one from the clock of the store. The error matches
// workflow.ErrNotSupported if the store keeps no journal.
func (c *Client) WriteJournal(ctx context.Context, e store.JournalEntry, keep store.JournalKeep) (id string, err error) {
	entries, err := capability[store.Entries](c, "write the journal")
	if err != nil {
		return "", err
	}
	if e.ID == "" {
		e.ID = store.NewJournalID(c.store.Clock().Now())
	}
	return e.ID, store.WriteJournal(ctx, entries, e, keep)
}
