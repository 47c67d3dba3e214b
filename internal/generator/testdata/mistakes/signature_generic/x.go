package signature_generic

import "context"

type box[T any] struct{ value T }

//flow:step
func generic[T any](ctx context.Context, v T) error { return nil }

//flow:step
func (b *box[T]) open(ctx context.Context) error { return nil }

//flow:step
func instance(ctx context.Context, n []int) error { return nil }
