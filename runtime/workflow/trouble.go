package workflow

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

// Trouble is a failure group: runs that have failed, have a step that is being retried, or are
// blocked, for the same reason as far as code, error types, step and message show. IDs, numbers,
// times and quoted text in messages are ignored, as are line numbers. [RunInfo].Group is the group
// of a run.
type Trouble = store.Trouble

// TroubleKind is the kind of failure of a group.
type TroubleKind = store.TroubleKind

// The kinds of failure groups.
const (
	TroubleFailed   = store.TroubleFailed
	TroubleRetrying = store.TroubleRetrying
	TroubleBlocked  = store.TroubleBlocked
)

// TroubleGroup is a failure group with the number of runs that have entered it, and the number of
// runs in it.
type TroubleGroup = store.TroubleGroup

// TroubleFilter selects failure groups. The zero TroubleFilter selects all.
type TroubleFilter = store.TroubleQuery

// TroublePage is one page of a list of failure groups.
type TroublePage = store.TroublePage

// Troubles returns a page of the failure groups, the most recently entered ones first. A group is
// kept for 30 days after the last run entered it, and as long as a run is in it; a failed run stays
// in its group until it is purged or deleted. The error matches [ErrNotSupported] if the store
// keeps no groups.
func (c *Client) Troubles(ctx context.Context, f TroubleFilter) (TroublePage, error) {
	lister, ok := store.As[store.TroubleLister](c.store)
	if !ok {
		return TroublePage{}, fmt.Errorf("list troubles: %w", ErrNotSupported)
	}
	return lister.Troubles(ctx, f)
}
