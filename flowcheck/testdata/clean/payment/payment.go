// Package payment waits for a bank to report a transfer.
package payment

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Report is a call of the bank.
type Report struct {
	Cents    int
	Currency string
}

// Reports are the calls of the bank.
var Reports = workflow.NewHook[Report]("reports")

// Progress is how much is paid.
var Progress = workflow.NewValue[int]("progress")

//flow:step
func request(ctx context.Context, account, token string, cents int) error { return ctx.Err() }

// DeclinedError says why there is no money.
//
//flow:error
type DeclinedError struct{ Reason string }

// Error says it.
func (e *DeclinedError) Error() string { return "declined: " + e.Reason }

// collect adds up transfers.
//
//flow:workflow
func collect(ctx workflow.Context, account string, cents int) (int, error) {
	hook, err := Reports.Open(ctx)
	if err != nil {
		return 0, err
	}
	defer hook.Dispose(ctx)
	if err := Request(ctx, account, hook.Token(), cents); err != nil {
		return 0, err
	}
	paid := 0
	for paid < cents {
		Progress.Set(ctx, paid)
		report, err := hook.Receive(ctx, workflow.Timeout(7*24*time.Hour))
		var timeout bool
		if errors.Is(err, workflow.ErrReceiveTimeout) {
			timeout = true
		} else if err != nil {
			return paid, err
		}
		if timeout || report.Currency != "CHF" {
			return paid, &DeclinedError{Reason: "currency " + report.Currency}
		}
		paid += report.Cents
	}
	return paid, nil
}
