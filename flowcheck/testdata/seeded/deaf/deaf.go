// Package deaf has workflow code that no error ends.
package deaf

import (
	"time"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func ignores(ctx workflow.Context, customer string) error {
	for { // want `^no error leaves this loop: when the run is canceled, what waits in it fails at once, again and again: return the error \[deaf\]$`
		_ = workflow.Sleep(ctx, time.Minute)
	}
}

func logs(ctx workflow.Context, customer string) error {
	for { // want `^no error leaves this loop`
		if err := shop.Notify(ctx, customer, "hello"); err != nil {
			workflow.Logger(ctx).Error("not sent", "err", err)
			continue
		}
		_ = workflow.Sleep(ctx, time.Minute)
	}
}

func untilCanceled(ctx workflow.Context, customer string) error {
	for ctx.Err() == nil {
		_ = workflow.Sleep(ctx, time.Minute)
	}
	return ctx.Err()
}

func breaks(ctx workflow.Context, customer string) error {
	for i := 0; ; i++ {
		if err := workflow.Sleep(ctx, time.Minute); err != nil || i > 3 {
			break
		}
	}
	return nil
}
