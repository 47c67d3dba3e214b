package signature_context

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Ctx is spelt differently but is the same type: allowed.
type Ctx = context.Context

type own struct{ context.Context }

//flow:step
func noParams() error { return nil }

//flow:step
func wrongFirst(id string) error { return nil }

//flow:step
func ownContext(ctx own) error { return nil }

//flow:step
func onlyVariadic(ctxs ...context.Context) error { return nil }

//flow:step
func workflowContext(ctx workflow.Context, id string) error { return nil }

//flow:workflow
func stepContext(ctx context.Context, id string) error { return nil }

//flow:workflow
func noContext(id string) error { return nil }

//flow:step
func fine(ctx Ctx) error { return nil }
