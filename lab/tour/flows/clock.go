package flows

import (
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// ring returns the tick for which it was started, or "" if there is none.
//
//flow:workflow
func ring(ctx workflow.Context, bell string) (string, error) {
	tick, ticked := workflow.Tick(ctx)
	if !ticked {
		return bell, nil
	}
	return bell + " at " + tick.Format(time.RFC3339), nil
}
