// Package nightly closes the books of a shop each night, by a schedule. A night at which no worker
// was running is closed afterwards. The nights are closed in order, and each of them once.
//
//	go run ./examples/recipes nightly
//
// A night lasts a second in this recipe. The worker is stopped for three nights. The recipe prints:
//
//	the worker was down for 3 nights
//	they are closed, in order, none twice
package nightly

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Nights is the schedule at 02:30 in Zurich, including after clock changes.
const Nights = "30 2 * * * Europe/Zurich"

// Books contains the dependencies of the steps.
type Books struct {
	Close func(ctx context.Context, night time.Time) error
}

// report closes the books of the night for which it was started. It uses the time of its tick
// instead of the current time, because these differ after a downtime.
//
//flow:workflow
func report(ctx workflow.Context) error {
	night, ok := workflow.Tick(ctx)
	if !ok { // The run was started manually.
		night = workflow.Now(ctx)
	}
	return CloseNight(ctx, night)
}

//flow:step retries=10 backoff=exponential(1s,10m)
func (b *Books) closeNight(ctx context.Context, night time.Time) error { return b.Close(ctx, night) }

// Declare creates the schedule, or changes its times. A program calls it at each start.
//
// With OverlapQueue, a report is started for each missed night, one after the other. With
// OverlapSkip, which is the default, only one report would be started, for the newest night. Nights
// that are more than two weeks ago are omitted.
func Declare(ctx context.Context, client *workflow.Client, when string) error {
	return Report.Schedule(ctx, client, "nightly", schedule.Spec{
		When: when, Overlap: schedule.Queue, CatchUp: 14 * 24 * time.Hour,
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
