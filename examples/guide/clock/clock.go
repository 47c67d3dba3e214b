// Package clock shows how the clock starts workflows.
package clock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Books are closed day by day.
type Books struct{ Close func(day time.Time) error }

// closeDay closes the books of a day.
//
//flow:step
func (b *Books) closeDay(_ context.Context, day time.Time) error { return b.Close(day) }

// nightly closes the books of the day before. However late it is started, and whoever starts
// it again, it works for the night that the tick says.
//
//flow:workflow schedule="30 2 * * * Europe/Zurich"
func nightly(ctx workflow.Context) error {
	night, ticked := workflow.Tick(ctx)
	if !ticked { // somebody has triggered it
		night = workflow.Now(ctx)
	}
	return CloseDay(ctx, night.AddDate(0, 0, -1))
}

// report counts what a region has sold.
//
//flow:workflow
func report(ctx workflow.Context, region string) error {
	workflow.Logger(ctx).Info("report", "region", region)
	return nil
}

// ReportEach gives each region a schedule of its own, with an input.
func ReportEach(ctx context.Context, client *workflow.Client, regions []string) error {
	for _, region := range regions {
		err := Report.Schedule(ctx, client, "report-"+region, workflow.Schedule{
			When:    "0 7 * * mon-fri Europe/Zurich",
			Overlap: workflow.OverlapReplace,
			CatchUp: 12 * time.Hour,   // no report of the day before yesterday
			Jitter:  10 * time.Minute, // not all regions at once
		}, region, workflow.WithPriority(-1))
		if err != nil {
			return err
		}
	}
	return nil
}

// Migrate stops the nightly run while something else needs the database, and does afterwards what
// was left out.
func Migrate(ctx context.Context, client *workflow.Client, migrate func() error) error {
	s, name, begun := client.Schedules(), Nightly.Name(), time.Now()
	if err := s.Pause(ctx, name, "migration"); err != nil {
		return err
	}
	if err := migrate(); err != nil {
		return err // it stays paused, and Get says why
	}
	if err := s.Resume(ctx, name); err != nil {
		return err
	}
	return s.Backfill(ctx, name, workflow.Backfill{From: begun, To: time.Now(), Overlap: workflow.OverlapAllow})
}

// Show prints what the schedules do.
func Show(ctx context.Context, client *workflow.Client) error {
	for s, err := range client.Schedules().List(ctx) {
		if err != nil {
			return err
		}
		fmt.Printf("%s starts %s at %q: next %v, %d started, %d skipped, %d too late\n",
			s.Name, s.Workflow, s.When, s.Next, s.Started, s.Skipped, s.Missed)
	}
	return nil
}

// Now runs the nightly workflow at once, beside its ticks.
func Now(ctx context.Context, client *workflow.Client) error {
	run, err := client.Schedules().Trigger(ctx, Nightly.Name())
	if errors.Is(err, workflow.ErrScheduleNotFound) {
		return errors.New("no worker has created the schedule yet")
	}
	if err != nil {
		return err
	}
	fmt.Println("see run", run)
	return nil
}
