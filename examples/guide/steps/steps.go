// Package steps demonstrates the options of a step.
package steps

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/step"
)

// Receipt proves that a payment was made.
type Receipt struct {
	Payment string `json:"payment"`
	Cents   int64  `json:"cents"`
}

// DeclinedError is returned if the bank refuses the card. Retries would fail as well.
//
//flow:error
type DeclinedError struct{ Reason string }

// Error returns the reason.
func (e *DeclinedError) Error() string { return "card declined: " + e.Reason }

// BusyError is returned if the bank is busy. Wait is the time after which it can be called again.
type BusyError struct{ Wait time.Duration }

// Error returns the waiting time as text.
func (e *BusyError) Error() string { return fmt.Sprintf("bank is busy for %v", e.Wait) }

// Bank contains the steps of a bank as methods, and their dependencies.
type Bank struct {
	// Book debits the customer. It does nothing if the key was used before.
	Book func(ctx context.Context, key, customer string, cents int64) (payment string, err error)
}

// charge bills the customer's card.
//
//flow:step retries=5 backoff=exponential(200ms,30s) jitter=0.2 timeout=10s fatal=*DeclinedError
func (b *Bank) charge(ctx context.Context, customer string, cents int64) (Receipt, error) {
	payment, err := b.Book(ctx, step.IdempotencyKey(ctx), customer, cents)
	var busy *BusyError
	switch {
	case errors.As(err, &busy):
		return Receipt{}, step.RetryAfter(err, busy.Wait)
	case err != nil:
		return Receipt{}, fmt.Errorf("charge %s: %w", customer, err)
	}
	return Receipt{Payment: payment, Cents: cents}, nil
}

// Courier fetches parcels.
type Courier struct {
	// Call orders a pick-up. A repeated call orders another pick-up.
	Call func(ctx context.Context, orderID string) error
}

// fetch orders the pick-up of a parcel. The courier cannot detect a repeated call. If the worker
// crashes during the attempt, an operator must check whether the pick-up was ordered.
//
//flow:step nonidempotent key=orderID retries=0
func (c *Courier) fetch(ctx context.Context, orderID string) error {
	return c.Call(ctx, orderID)
}

// Archive contains the dependencies of copyAll, which copies a thousand rows at a time.
type Archive struct {
	Rows int
	Copy func(ctx context.Context, from, to int) error
}

// copyAll copies the rows that earlier attempts have not copied.
//
//flow:step timeout=2h
func (a *Archive) copyAll(ctx context.Context) (int, error) {
	done, _ := step.LastHeartbeat[int](ctx) // In the first attempt, done is 0.
	for done < a.Rows {
		next := min(done+1000, a.Rows)
		if err := a.Copy(ctx, done, next); err != nil {
			return 0, err
		}
		done = next
		if err := step.Heartbeat(ctx, done); err != nil {
			return 0, err
		}
	}
	return done, nil
}

// check validates an address.
//
//flow:step
func check(_ context.Context, address string) error {
	if address == "" {
		return step.Fatal(errors.New("there is no address"))
	}
	return nil
}
