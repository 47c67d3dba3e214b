package workflow

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

// Journal returns a page of the journal of operator requests, newest entry first. The error matches
// [ErrNotSupported] if the store keeps no journal.
func (c *Client) Journal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error) {
	j, ok := store.As[store.Journaler](c.store)
	if !ok {
		return store.JournalPage{}, fmt.Errorf("read the journal: %w", ErrNotSupported)
	}
	return j.Journal(ctx, q)
}

// Store returns the store of the client, for packages such as fsck that read the store as a whole.
// The caller must not close it; its owner does.
func (c *Client) Store() store.Store { return c.store }

// WriteJournal writes a journal entry, see [store.Journaler], and returns its ID. An entry without
// an ID gets one made from the time of the store's clock. The error matches [ErrNotSupported] if
// the store keeps no journal.
func (c *Client) WriteJournal(ctx context.Context, e store.JournalEntry, keep store.JournalKeep) (id string, err error) {
	j, ok := store.As[store.Journaler](c.store)
	if !ok {
		return "", fmt.Errorf("write the journal: %w", ErrNotSupported)
	}
	if e.ID == "" {
		e.ID = store.NewJournalID(c.store.Clock().Now())
	}
	return e.ID, j.WriteJournal(ctx, e, keep)
}
