// Package clock demonstrates workflows that are started by a schedule.
package clock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Books contains the dependencies of the steps. Close closes the books of a day.
type Books struct{ Close func(day time.Time) error }

// closeDay closes the books of a day.
//
//flow:step
func (b *Books) closeDay(_ context.Context, day time.Time) error { return b.Close(day) }

// nightly closes the books of the previous day. It uses the time of its tick, so that the result
// does not depend on the actual start of the run or on reruns.
//
//flow:workflow schedule="30 2 * * * Europe/Zurich"
func nightly(ctx workflow.Context) error {
	night, ticked := workflow.Tick(ctx)
	if !ticked { // The run was triggered manually.
		night = workflow.Now(ctx)
	}
	return CloseDay(ctx, night.AddDate(0, 0, -1))
}

// report counts the sales of a region.
//
//flow:workflow
func report(ctx workflow.Context, region string) error {
	workflow.Logger(ctx).Info("report", "region", region)
	return nil
}

// ReportEach creates a schedule for each region, with the region as input.
func ReportEach(ctx context.Context, client *workflow.Client, regions []string) error {
	for _, region := range regions {
		err := Report.Schedule(ctx, client, "report-"+region, schedule.Spec{
			When:    "0 7 * * mon-fri Europe/Zurich",
			Overlap: schedule.Replace,
			CatchUp: 12 * time.Hour,   // A report of the day before yesterday is not needed.
			Jitter:  10 * time.Minute, // The reports of all regions must not start at the same time.
		}, region, workflow.WithPriority(-1))
		if err != nil {
			return err
		}
	}
	return nil
}

// Migrate pauses the schedule during a migration of the database, and then executes the missed
// ticks.
func Migrate(ctx context.Context, client *workflow.Client, migrate func() error) error {
	s, name, begun := ops.New(client).Schedules(), Nightly.Name(), time.Now()
	if err := s.Pause(ctx, name, "migration"); err != nil {
		return err
	}
	if err := migrate(); err != nil {
		return err // The schedule stays paused. Get returns the reason.
	}
	if err := s.Resume(ctx, name); err != nil {
		return err
	}
	return s.Backfill(ctx, name, schedule.Backfill{From: begun, To: time.Now(), Overlap: schedule.Allow})
}

// Show prints the state of the schedules.
func Show(ctx context.Context, client *workflow.Client) error {
	for s, err := range ops.New(client).Schedules().List(ctx) {
		if err != nil {
			return err
		}
		fmt.Printf("%s starts %s at %q: next %v, %d started, %d skipped, %d too late\n",
			s.Name, s.Workflow, s.When, s.Next, s.Started, s.Skipped, s.Missed)
	}
	return nil
}

// Now starts a run of the nightly workflow immediately, in addition to the scheduled ones.
func Now(ctx context.Context, client *workflow.Client) error {
	run, err := ops.New(client).Schedules().Trigger(ctx, Nightly.Name())
	if errors.Is(err, ops.ErrScheduleNotFound) {
		return errors.New("no worker has created the schedule yet")
	}
	if err != nil {
		return err
	}
	fmt.Println("see run", run)
	return nil
}
