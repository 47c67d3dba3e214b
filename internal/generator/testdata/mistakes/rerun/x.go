package rerun

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:workflow rerun=0
func never(ctx workflow.Context) error { return nil }

//flow:workflow rerun=1000
func forever(ctx workflow.Context) error { return nil }

//flow:workflow rerun=exponential(1m,1h)
func uncounted(ctx workflow.Context) error { return nil }

//flow:workflow rerun=3,10m
func unshaped(ctx workflow.Context) error { return nil }

//flow:workflow rerun=3,linear(1m)
func unbounded(ctx workflow.Context) error { return nil }

//flow:workflow rerun=3,constant(0s)
func busy(ctx workflow.Context) error { return nil }

//flow:step rerun=3
func step(ctx context.Context) error { return nil }

//flow:workflow rerun="3, linear(1m,5m)"
func spaced(ctx workflow.Context) error { return nil }
