package functions

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// sum has a variadic parameter only.
//
//flow:step
func sum(ctx context.Context, numbers ...int) (int, error) { return len(numbers), nil }

//flow:step
func tag(ctx context.Context, id string, tags ...[]string) error { return nil }

//flow:workflow
func all(ctx workflow.Context, regions ...string) (int, error) {
	return Sum(ctx, make([]int, len(regions))...)
}

//flow:workflow
func some(ctx workflow.Context, limit int, regions ...string) error {
	return Tag(ctx, "x", regions)
}
