package clock

import (
	clk "time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// renamed imports the package by another name, and waits by it.
//
//flow:workflow
func renamed(ctx workflow.Context, order Order) error {
	clk.Sleep(clk.Minute) // want `^time.Sleep waits by the clock of the process`
	return Ship(ctx, order.ID, order.Cents)
}
