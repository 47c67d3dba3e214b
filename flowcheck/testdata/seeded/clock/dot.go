package clock

import (
	. "time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// dotted imports all names of the package.
//
//flow:workflow
func dotted(ctx workflow.Context, order Order) error {
	if order.Made.Before(Now().Add(-Hour)) { // want `^time.Now reads`
		return nil
	}
	return Ship(ctx, order.ID, order.Cents)
}
