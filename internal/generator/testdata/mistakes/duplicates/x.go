package duplicates

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step
//flow:step retries=5
func twice(ctx context.Context) error { return nil }

//flow:step
//flow:workflow
func both(ctx workflow.Context) error { return nil }

//flow:step retries=5 retries=6
func options(ctx context.Context) error { return nil }

//flow:error
//flow:error
type failure struct{}

func (failure) Error() string { return "" }
