package workflows

import (
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// clean runs every night at half past two.
//
//flow:workflow schedule="30 2 * * * Europe/Zurich" timeout=4h
func clean(ctx workflow.Context) error { return nil }

// sweep returns the tick for which it was started.
//
//flow:workflow schedule="every  10m"
func sweep(ctx workflow.Context, nothing workflow.None) (time.Time, error) {
	tick, _ := workflow.Tick(ctx)
	return tick, nil
}
