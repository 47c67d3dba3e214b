// Package flows demonstrates the operations of workflow code, and how programs start and follow
// runs.
package flows

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Offer is the price of a carrier.
type Offer struct {
	Carrier string `json:"carrier"`
	Cents   int    `json:"cents"`
}

// quote requests the price of a carrier.
//
//flow:step timeout=5s
func quote(_ context.Context, carrier string) (Offer, error) {
	return Offer{Carrier: carrier, Cents: 100 * len(carrier)}, nil
}

// remind sends a reminder to the reviewer of a document.
//
//flow:step
func remind(ctx context.Context, doc string) error {
	slog.InfoContext(ctx, "please review", "doc", doc)
	return nil
}

// coupon gives a customer a coupon after the trial period.
//
//flow:workflow
func coupon(ctx workflow.Context, customer string) (string, error) {
	ends := workflow.Now(ctx).Add(30 * 24 * time.Hour)
	if err := workflow.SleepUntil(ctx, ends); err != nil {
		return "", err
	}
	host, err := workflow.Record(ctx, os.Hostname) // os.Hostname is called once. Every replay returns the same value.
	if err != nil {
		return "", err
	}
	percent := 5 * (1 + workflow.Rand(ctx).IntN(3))
	workflow.Logger(ctx).Info("coupon", "made_by", host, "percent", percent)
	return fmt.Sprintf("coupon %s for %s", workflow.UUID(ctx), customer), nil
}

// cheapest requests the prices of all carriers, four at a time.
//
//flow:workflow
func cheapest(ctx workflow.Context, carriers []string) (Offer, error) {
	offers, err := workflow.Map(ctx, carriers, Quote, workflow.Limit(4))
	if err != nil {
		return Offer{}, err
	}
	best := offers[0]
	for _, o := range offers {
		if o.Cents < best.Cents {
			best = o
		}
	}
	return best, nil
}

// fastest returns the offer of the carrier that answers first.
//
//flow:workflow
func fastest(ctx workflow.Context, a, b string) (Offer, error) {
	first := workflow.Go(ctx, func(ctx workflow.Context) (Offer, error) { return Quote(ctx, a) })
	second := workflow.Go(ctx, func(ctx workflow.Context) (Offer, error) { return Quote(ctx, b) })
	return workflow.Any(ctx, first, second)
}
