package functions

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// A workflow has the ways of two versions: runs that were under way take the old one.

//flow:step
func reserve(ctx context.Context, item string) (string, error) { return "reserved " + item, nil }

//flow:step
func inspect(ctx context.Context, item string) (string, error) { return "inspected " + item, nil }

//flow:workflow
func order(ctx workflow.Context, item string) (string, error) {
	if workflow.Version(ctx, "inspect-first", 1) == 1 {
		if _, err := Inspect(ctx, item); err != nil {
			return "", err
		}
	}
	return Reserve(ctx, item)
}
