package functions

import "context"

// debit bills the card, see [Refund].
//
// Steps:
//   - first
//   - second
//
// And code:
//
//	err := debit(ctx)
//
// Deprecated: use another.
//
//flow:step
//go:noinline
func debit(ctx context.Context) error { return nil }

/*
refund is in a block comment.

	code
*/
//flow:step
func refund(ctx context.Context) error { return nil }

// checked is followed by what is for other tools.
//
// nolint
// nosec // G304 is checked before
// nolint: gosec // a reason
//
//flow:step
func checked(ctx context.Context) error { return nil }

// This one does not start with its name.
//
//flow:step
func other(ctx context.Context) error { return nil }

// last: the name is followed by a colon.
//
//flow:step
func last(ctx context.Context) error { return nil }

//flow:step
func bare(ctx context.Context) error { return nil }
