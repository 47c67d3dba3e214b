// Package trial turns trials into paid accounts.
package trial

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// What a trial hears.
var (
	Bought  = workflow.NewTopic[string]("bought")
	Stopped = workflow.NewTopic[string]("stopped")
)

//flow:step
func tip(ctx context.Context, account string, n int) error { return ctx.Err() }

//flow:step
func upgrade(ctx context.Context, account, plan string) error { return ctx.Err() }

//flow:step
func closeAccount(ctx context.Context, account string) error { return ctx.Err() }

// trial waits for what comes first.
//
//flow:workflow
func trial(ctx workflow.Context, account string) (string, error) {
	bought, stopped, over := Bought.Case(), Stopped.Case(), workflow.After(14*24*time.Hour)
	for tips := 0; ; tips++ {
		next := workflow.After(3 * 24 * time.Hour)
		won, err := workflow.Select(ctx, bought, stopped, over, next)
		if err != nil {
			return "", err
		}
		switch won {
		case bought:
			return "paid", Upgrade(ctx, account, bought.Value())
		case stopped, over:
			return "over", CloseAccount(ctx, account)
		default:
			if err := Tip(ctx, account, tips); err != nil {
				return "", err
			}
		}
	}
}
