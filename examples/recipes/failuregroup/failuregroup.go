// Package failuregroup retries all runs that have failed for the same reason, after the reason is
// fixed. Steps that were completed are not executed again.
//
//	go run ./examples/recipes failuregroup
//
// Invoices to Switzerland fail because the program contains no tax rate for it. A release with the
// rate is started, and an operator retries the failure group. The recipe prints:
//
//	5 runs: failuregroup.invoice/failuregroup.tax: no rate of tax
//	5 retried, 0 refused
//	5 invoices are rendered and taxed, each rendered once
//
// Operators can do the same with flowctl retry --group GROUP, or on the page of failures in the
// console.
package failuregroup

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// ErrNoRate is returned for a country without a tax rate. The step is not retried, because a retry
// would fail as well.
//
//flow:error
var ErrNoRate = errors.New("no rate of tax")

// Order is the input of invoice.
type Order struct {
	ID, Country string
	Cents       int64
}

// Office contains the dependencies of the steps.
type Office struct {
	Rates map[string]int64 // tax rates in percent, by country

	mu       sync.Mutex
	rendered map[string]int // number of executions by order ID
}

// invoice renders and taxes an invoice, and returns the total.
//
//flow:workflow
func invoice(ctx workflow.Context, order Order) (int64, error) {
	if err := Render(ctx, order.ID); err != nil {
		return 0, err
	}
	return Tax(ctx, order)
}

//flow:step
func (o *Office) render(_ context.Context, id string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rendered == nil {
		o.rendered = map[string]int{}
	}
	o.rendered[id]++
	return nil
}

//flow:step fatal=ErrNoRate
func (o *Office) tax(_ context.Context, order Order) (int64, error) {
	if order.Cents <= 0 {
		return 0, step.Fatal(fmt.Errorf("order %s has no amount", order.ID))
	}
	percent, ok := o.Rates[order.Country]
	if !ok {
		return 0, fmt.Errorf("%w: %q", ErrNoRate, order.Country)
	}
	return order.Cents * (100 + percent) / 100, nil
}

// Rendered returns the number of times that an invoice was rendered.
func (o *Office) Rendered(id string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.rendered[id]
}

// RetryGroup retries the failed runs of a failure group. It returns when the bulk action has ended.
// A repeated call does not retry a run twice.
func RetryGroup(ctx context.Context, service *admin.Service, group, reason string) (admin.Bulk, error) {
	preview, err := service.Preview(ctx, admin.BulkRequest{
		Filter: admin.Filter{Group: group},
		Action: admin.Action{Verb: "retry", Reason: reason},
	})
	if err != nil {
		return admin.Bulk{}, err
	}
	bulk, err := service.StartBulk(ctx, admin.NewBulk{Token: preview.Token, Rate: 50})
	for err == nil && bulk.Ended.IsZero() {
		if _, err = service.Wait(ctx, bulk.Run, 10*time.Second); err == nil {
			bulk, err = service.Bulk(ctx, bulk.ID)
		}
	}
	return bulk, err
}

// Work runs a worker with a release of the program until stop is called.
func Work(ctx context.Context, client *workflow.Client, office *Office) (stop func() error) {
	w := worker.New(client, worker.Config{})
	Register(w, office)
	admin.Register(w, admin.New(client)) // The worker also executes bulk actions.
	ctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(ctx) }()
	return sync.OnceValue(func() error { cancel(); return <-worked })
}
