// Package parcel asks a parcel service until a parcel has arrived.
package parcel

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Place is where a parcel is.
type Place struct {
	City    string
	Arrived bool
}

//flow:step
func locate(ctx context.Context, parcel string) (Place, error) { return Place{City: parcel}, ctx.Err() }

// track asks once an hour, for a month at most.
//
//flow:workflow
func track(ctx workflow.Context, parcel string) ([]string, error) {
	var cities []string
	for deadline := workflow.Now(ctx).AddDate(0, 1, 0); workflow.Now(ctx).Before(deadline); {
		place, err := Locate(ctx, parcel)
		if err != nil {
			return cities, err
		}
		if !slices.Contains(cities, place.City) {
			cities = append(cities, place.City)
		}
		if place.Arrived {
			return cities, nil
		}
		if err := workflow.Sleep(ctx, time.Hour); err != nil {
			return cities, err
		}
	}
	return cities, fmt.Errorf("parcel %s is lost", parcel)
}
