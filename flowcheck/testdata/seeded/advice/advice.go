// Package advice has code that is worth a look.
package advice

import (
	"context"
	"database/sql"
	"net/http"
	"strings"
	"time"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Shop has a database.
type Shop struct{ db *sql.DB }

// forwarded passes verdicts on for ever.
//
//flow:workflow
func forwarded(ctx workflow.Context, customer string) error {
	for { // want `^advice: this loop makes the log longer for ever: end it some time, and return what ContinueAsNew returns \[endless\]$`
		verdict, err := shop.Verdict.Receive(ctx)
		if err != nil {
			return err
		}
		if err := shop.Notify(ctx, customer, verdict); err != nil {
			return err
		}
	}
}

// rented gives back what it has.
//
//flow:workflow
func rented(ctx workflow.Context, order shop.Order) error {
	if err := shop.Reserve(ctx, order.ID, 1); err != nil {
		return err
	}
	defer func() {
		if err := shop.Release(ctx, order.Lines); err != nil { // want `^advice: if the run is canceled or out of time, shop.Release fails at once with this context: give it workflow.Detached\(ctx\) \[cleanup\]$`
			workflow.Logger(ctx).Error("not released", "err", err)
		}
	}()
	return shop.Notify(ctx, order.Customer, "reserved")
}

// direct defers the step itself.
//
//flow:workflow
func direct(ctx workflow.Context, order shop.Order) error {
	defer shop.Release(ctx, order.Lines) // want `^advice: if the run is canceled`
	return shop.Reserve(ctx, order.ID, 1)
}

// save writes to a database and to a server.
//
//flow:step
func (s *Shop) save(ctx context.Context, id string) error {
	if _, err := s.db.ExecContext(ctx, "insert into orders values (?)", id); err != nil {
		return err
	}
	resp, err := http.Post("https://example.com/orders", "text/plain", strings.NewReader(id)) // want `^advice: this step writes to a database and to a server: if http.Post fails, a retry repeats the other: make two steps of it \[mixed\]$`
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// announce does it aside.
//
//flow:step
func (s *Shop) announce(ctx context.Context, id string) error {
	go s.save(context.WithoutCancel(ctx), id) // want `^advice: the step is recorded as done while this goroutine is at work, and a crash loses that: wait for it \[gostep\]$`
	return nil
}

// late registers the undo too late.
func late(ctx workflow.Context, order shop.Order) error {
	offer, err := shop.Quote(ctx, order.ID)
	if err != nil {
		return err
	}
	if err := shop.Notify(ctx, order.Customer, "quoted"); err != nil {
		return err
	}
	workflow.Compensate(ctx, func(ctx workflow.Context) error { return shop.Notify(ctx, offer.Carrier, "no") }) // want `^advice: if shop.Notify fails, what shop.Quote did is not undone: register the undo right behind it \[undo\]$`
	return shop.Reserve(ctx, order.ID, 1)
}

// early registers it at once.
func early(ctx workflow.Context, order shop.Order) error {
	offer, err := shop.Quote(ctx, order.ID)
	if err != nil {
		return err
	}
	workflow.Compensate(ctx, func(ctx workflow.Context) error { return shop.Notify(ctx, offer.Carrier, "no") })
	return shop.Reserve(ctx, order.ID, 1)
}

// put off for ever by messages.
func postponed(ctx workflow.Context, order shop.Order) error {
	for {
		verdict, over := shop.Verdict.Case(), workflow.After(time.Hour)
		won, err := workflow.Select(ctx, verdict, over) // want `^advice: this timer starts over in every turn of the loop, so that messages put it off: if it is a deadline, make it in front of the loop \[rearm\]$`
		if err != nil {
			return err
		}
		if won == over {
			return nil
		}
	}
}

// reminded repeats what the timer is for.
func reminded(ctx workflow.Context, order shop.Order) error {
	for {
		verdict, daily := shop.Verdict.Case(), workflow.After(time.Hour)
		won, err := workflow.Select(ctx, verdict, daily)
		if err != nil {
			return err
		}
		if won == verdict {
			return nil
		}
		if err := shop.Notify(ctx, order.Customer, "waiting"); err != nil {
			return err
		}
	}
}
