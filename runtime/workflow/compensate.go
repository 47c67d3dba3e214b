package workflow

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// Compensate registers a function that undoes an earlier effect of the workflow:
//
//	receipt, err := Charge(ctx, order)
//	if err != nil {
//		return err
//	}
//	workflow.Compensate(ctx, func(ctx workflow.Context) error { return Refund(ctx, receipt) })
//
// If the run fails, including by a panic, or is canceled, the registered functions run one after
// the other, the last registered first, each under its own context that no cancel and no timeout
// ends. They are ordinary workflow code: their steps are recorded and retried as usual, and after a
// crash the run continues with the function that was running. If one of them returns an error or
// panics, the others still run; [RunError] lists what was undone and what was not. A run that
// completes or continues as new drops them. withdraw drops this one, unless it has begun.
//
// Before the first function runs, everything under the context of the run is canceled, and the run
// waits for its open branches; a branch that waits under a [Detached] context therefore delays the
// compensation. After a panic the run does not wait for its branches.
//
// A run that the engine ends without executing its code, because the run has killed too many
// workers, undoes nothing. Compensate panics if it is called by a registered function.
func Compensate(ctx Context, undo func(Context) error) (withdraw func()) {
	return ctx.branch().Compensate(func(b *replay.Branch, s *replay.Scope) *event.Failure {
		own := ctx.on(b)
		own.s = s
		if err := undo(own); err != nil {
			return failure.Encode(err, event.CodeError)
		}
		return nil
	}).Withdraw
}
