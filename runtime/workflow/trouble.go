package workflow

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

// Trouble is a group of runs to which the same has happened: they have failed, or a step of them
// is being retried, or they are blocked, for the same reason as far as code, error types, step
// and message tell; ids, numbers, times and quoted text in messages make no difference, and
// neither do lines of code. [RunInfo].Group is the group of a run.
type Trouble = store.Trouble

// TroubleKind says what kind of trouble a group is about.
type TroubleKind = store.TroubleKind

// The kinds of trouble.
const (
	TroubleFailed   = store.TroubleFailed
	TroubleRetrying = store.TroubleRetrying
	TroubleBlocked  = store.TroubleBlocked
)

// TroubleGroup is a group with how many runs have come into it, and how many are in it now.
type TroubleGroup = store.TroubleGroup

// TroubleFilter selects groups. The zero TroubleFilter selects all.
type TroubleFilter = store.TroubleQuery

// TroublePage is a part of a list of groups.
type TroublePage = store.TroublePage

// Troubles returns a page of the groups of trouble, those first into which a run has come last. A
// group is kept for 30 days after the last run has come into it, and for as long as there is one
// in it: one that has failed is until it is purged or deleted. [ErrNotSupported]: the store keeps
// no groups.
func (c *Client) Troubles(ctx context.Context, f TroubleFilter) (TroublePage, error) {
	lister, ok := store.As[store.TroubleLister](c.store)
	if !ok {
		return TroublePage{}, fmt.Errorf("list troubles: %w", ErrNotSupported)
	}
	return lister.Troubles(ctx, f)
}
