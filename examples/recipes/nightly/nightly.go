// Package nightly closes the books each night by a schedule. Nights at which no worker was running are
// closed afterwards, in order, each once.
//
//	go run ./examples/recipes nightly
//
// A night lasts a second here. The worker is stopped for three nights. It prints:
//
//	the worker was down for 3 nights
//	they are closed, in order, none twice
package nightly

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Nights is half past two in Zurich, also when the clocks change.
const Nights = "30 2 * * * Europe/Zurich"

// Books contains the dependencies of the steps.
type Books struct {
	Close func(ctx context.Context, night time.Time) error
}

// report closes the books of the night for which it was started. That is the time of its tick, not
// the present time: after a downtime they differ.
//
//flow:workflow
func report(ctx workflow.Context) error {
	night, ok := workflow.Tick(ctx)
	if !ok { // started by hand
		night = workflow.Now(ctx)
	}
	return CloseNight(ctx, night)
}

//flow:step retries=10 backoff=exponential(1s,10m)
func (b *Books) closeNight(ctx context.Context, night time.Time) error { return b.Close(ctx, night) }

// Declare creates the schedule, or changes its times. A program calls it whenever it begins.
//
// OverlapQueue starts a report for each missed night, one after the other. OverlapSkip, the default,
// would start one for the newest alone. Nights of more than two weeks ago are left out.
func Declare(ctx context.Context, client *workflow.Client, when string) error {
	return Report.Schedule(ctx, client, "nightly", workflow.Schedule{
		When: when, Overlap: workflow.OverlapQueue, CatchUp: 14 * 24 * time.Hour,
	}, workflow.None{})
}

// Work runs a worker until stop is called.
func Work(ctx context.Context, client *workflow.Client, books *Books) (stop func() error) {
	w := worker.New(client, worker.Config{})
	Register(w, books)
	ctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(ctx) }()
	return func() error { cancel(); return <-worked }
}
