// Package sleep has workflow code that sleeps for no time.
package sleep

import (
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

const pause = 30

func naps(ctx workflow.Context, d time.Duration) error {
	if err := workflow.Sleep(ctx, 5); err != nil { // want `^this sleeps for 5ns, and times are kept to the millisecond: write a unit, as in 5\*time.Second \[sleep\]$`
		return err
	}
	if err := workflow.Sleep(ctx, pause*time.Microsecond); err != nil { // want `^this sleeps for 30µs`
		return err
	}
	if err := workflow.Sleep(ctx, time.Millisecond); err != nil {
		return err
	}
	if err := workflow.Sleep(ctx, 0); err != nil {
		return err
	}
	return workflow.Sleep(ctx, d)
}
