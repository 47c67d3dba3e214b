// Package payment charges a customer exactly once, even if the process crashes or the response is
// lost between the charge and its record.
//
//	go run ./examples/recipes payment
//
// The payment service charges the customer and drops the connection before it responds, so that the
// step is executed again. The recipe prints:
//
//	order-7 is paid: charge-1
//	2 requests with 1 key, 1 charge
package payment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Order is the input of pay. An order is paid once.
type Order struct {
	ID    string
	Cents int64
}

// ErrDeclined is returned if the bank refuses the card. The step is not retried, because a retry
// would be refused as well.
//
//flow:error
var ErrDeclined = errors.New("card declined")

// Shop contains the dependencies of the steps.
type Shop struct {
	Service string // base URL of the payment service
}

// pay charges the customer of an order and returns the ID of the charge.
//
//flow:workflow
func pay(ctx workflow.Context, order Order) (string, error) {
	return Charge(ctx, order)
}

// charge sends the idempotency key of the step to the payment service. All attempts have the same
// key, even after a crash. If the service receives a key again, it responds with the charge that it
// has made for this key.
//
//flow:step retries=10 backoff=exponential(50ms,10s) timeout=10s fatal=ErrDeclined
func (s *Shop) charge(ctx context.Context, order Order) (string, error) {
	body, err := json.Marshal(order)
	if err != nil {
		return "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.Service+"/charges", bytes.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Idempotency-Key", step.IdempotencyKey(ctx))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err // The customer may have been charged. The next attempt obtains the result of that charge.
	}
	defer func() { _ = answer.Body.Close() }()
	switch answer.StatusCode {
	case http.StatusCreated:
		id, err := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return string(id), err
	case http.StatusPaymentRequired:
		return "", ErrDeclined
	default:
		return "", fmt.Errorf("charge %s: the service answers %s", order.ID, answer.Status)
	}
}

// Settle pays an order, or continues the payment that an earlier process has begun.
func Settle(ctx context.Context, client *workflow.Client, service string, order Order) (id string, err error) {
	w := worker.New(client, worker.Config{Heartbeat: time.Second, ClaimExpiry: 5 * time.Second})
	Register(w, &Shop{Service: service})
	ctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { defer cancel(); worked <- w.Run(ctx) }()
	defer func() { cancel(); err = errors.Join(err, <-worked) }()

	// An order has one payment. It is paid again only if the first payment has failed.
	run, err := Pay.Start(ctx, client, order, workflow.WithID("pay-"+order.ID),
		workflow.WithIDPolicy(workflow.IDPolicy{Finished: workflow.AllowFinishedAfterFailure}))
	if paid, ok := errors.AsType[*workflow.FinishedRunError](err); ok {
		run = Pay.Get(client, paid.Run)
	} else if err != nil {
		return "", err
	}
	return run.Result(ctx)
}
