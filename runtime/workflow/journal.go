package workflow

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

// Journal returns a page of the journal of what operators have asked for, the newest entry first. [ErrNotSupported]:
// the store keeps none.
func (c *Client) Journal(ctx context.Context, q store.JournalQuery) (store.JournalPage, error) {
	j, ok := store.As[store.Journaler](c.store)
	if !ok {
		return store.JournalPage{}, fmt.Errorf("read the journal: %w", ErrNotSupported)
	}
	return j.Journal(ctx, q)
}

// Store returns the store of the client, for what looks at it as a whole, such as package fsck. It stays the caller's who opened it.
func (c *Client) Store() store.Store { return c.store }

// WriteJournal writes an entry of the journal, as [store.Journaler] has it, and returns its id: one without an id gets one, of
// now by the clock of the store. [ErrNotSupported]: the store keeps none.
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
