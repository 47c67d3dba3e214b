package collision_register

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step
func register(ctx context.Context, n int) error { return nil }

// Steps is taken.
type Steps struct{}

//flow:step
func transfer(ctx context.Context, n int) error { return nil }

//flow:workflow
func move(ctx workflow.Context, from, to string) error { return nil }

// MoveInput is taken.
type MoveInput struct{}
