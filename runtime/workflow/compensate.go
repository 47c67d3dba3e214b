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
// If the run fails, even by a panic, or is canceled, the undos run one after the
// other, the last registered first, each under a context of its own that no cancel
// and no time limit ends. They are ordinary workflow code: their steps are recorded
// and retried as always, and after a crash the run continues with the undo that was
// under way. One that returns an error or panics does not keep the others from running;
// [RunError] says what was undone and what was not. A run that completes or
// continues as new drops them, and so does withdraw; an undo that has begun is not
// withdrawn.
//
// Before the first undo everything under the context of the run is canceled, and
// the branches that are open are waited for; so a branch that waits under a
// [Detached] context delays them. After a panic the branches are not waited for.
//
// A run that the engine ends without its code, because it has killed too many
// workers, undoes nothing. An undo may not register another one: it panics.
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
