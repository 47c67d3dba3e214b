package orders

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Follow starts the run of an order, approves it when the run waits for the approval, and prints its
// events.
func Follow(ctx context.Context, client *workflow.Client, orderID string, out io.Writer) error {
	order := Order{ID: orderID, Cents: 4990, Items: []string{"lamp", "desk", "chair"}}
	// An order has at most one run. After a restart, Start finds the existing run, which may be
	// active or completed.
	run, err := Fulfil.Start(ctx, client, order, workflow.WithID(order.ID),
		workflow.WithIDPolicy(workflow.IDPolicy{Finished: workflow.AllowFinishedAfterFailure}))
	line := newTimeline(out)
	var done *workflow.FinishedRunError
	switch {
	case errors.As(err, &done):
		run = Fulfil.Get(client, done.Run)
		line.header(run.ID(), fmt.Sprintf("has completed before: this is its log; try another -order than %s", orderID))
	case err != nil:
		return err
	case run.Created():
		line.header(run.ID(), "started")
	default:
		line.header(run.ID(), "found where an earlier process left it: carrying on")
	}
	for e, err := range run.Events(ctx) {
		if err != nil {
			return err
		}
		line.print(e)
		if e.Type == event.WaitCreated && e.Wait == event.WaitMessage {
			// This simulates a click on "approve". Because of the key, a second click or a restart
			// of this program sends the same message.
			if err := Approval.Send(ctx, run, "ann", workflow.IdempotencyKey("click-1")); err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
				return err
			}
		}
	}
	receipt, err := run.Result(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "run %s completed: %s, %d boxes, %s, approved by %s\n",
		run.ID(), receipt.Payment, len(receipt.Boxes), receipt.Tracking, receipt.Approved)
	return err
}
