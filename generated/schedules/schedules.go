// Package schedules holds workflows that the clock starts.
package schedules

import (
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// nightly runs every night at half past two.
//
//flow:workflow schedule="30 2 * * * Europe/Zurich" timeout=4h
func nightly(ctx workflow.Context) error { return nil }

// sweep returns the tick for which it was started.
//
//flow:workflow schedule="every  10m"
func sweep(ctx workflow.Context, nothing workflow.None) (time.Time, error) {
	tick, _ := workflow.Tick(ctx)
	return tick, nil
}
