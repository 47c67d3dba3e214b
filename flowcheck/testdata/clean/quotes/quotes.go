// Package quotes takes the first good offer.
package quotes

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Offer is what a carrier asks.
type Offer struct {
	Carrier string
	Cents   int
}

//flow:step timeout=10s
func quote(ctx context.Context, carrier string, kilos int) (Offer, error) {
	return Offer{Carrier: carrier}, ctx.Err()
}

// fastest takes whoever answers first without an error.
//
//flow:workflow
func fastest(ctx workflow.Context, carriers []string, kilos int) (Offer, error) {
	limited, cancel := workflow.WithTimeout(ctx, time.Minute)
	defer cancel()
	var offers []*workflow.Future[Offer]
	for _, carrier := range carriers {
		offers = append(offers, workflow.Go(limited, func(ctx workflow.Context) (Offer, error) {
			return Quote(ctx, carrier, kilos)
		}))
	}
	offer, err := workflow.Any(limited, offers...)
	if err != nil {
		return Offer{}, err
	}
	workflow.Logger(ctx).Info("taken", slog.String("carrier", offer.Carrier), "after", len(offers))
	return offer, nil
}
