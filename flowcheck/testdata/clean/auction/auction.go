// Package auction sells to whoever offers most.
package auction

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Bid is an offer.
type Bid struct {
	Bidder string
	Cents  int
}

// What an auction hears and shows.
var (
	Bids    = workflow.NewTopic[Bid]("bids")
	Highest = workflow.NewValue[Bid]("highest")
)

//flow:step
func settle(ctx context.Context, lot string, bid Bid) error { return ctx.Err() }

// sell ends when nobody offers more for a minute after the end.
//
//flow:workflow
func sell(ctx workflow.Context, lot string, reserve int, end time.Time) (Bid, error) {
	highest := Bid{Cents: reserve - 1}
	bids := make(map[string]int)
	for workflow.Now(ctx).Before(end) {
		bid, ok, err := Bids.TryReceive(ctx)
		if err == nil && !ok {
			bid, err = Bids.Receive(ctx, workflow.Timeout(end.Sub(workflow.Now(ctx))))
		}
		if errors.Is(err, workflow.ErrReceiveTimeout) {
			break
		}
		if err != nil {
			return Bid{}, err
		}
		bids[bid.Bidder]++
		if bid.Cents > highest.Cents {
			highest = bid
			Highest.Set(ctx, highest)
			if soon := workflow.Now(ctx).Add(time.Minute); soon.After(end) {
				end = soon
			}
		}
	}
	most := 0
	for _, n := range bids {
		most = max(most, n)
	}
	workflow.Logger(ctx).Info("over", "bidders", len(bids), "most", most)
	if highest.Bidder == "" {
		return Bid{}, errors.New("nobody offered enough for " + lot)
	}
	return highest, Settle(ctx, lot, highest)
}
