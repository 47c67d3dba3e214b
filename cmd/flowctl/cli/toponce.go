package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

// topFigures contains the figures that flowctl top prints once.
type topFigures struct {
	Counts admin.Counts  `json:"counts"`
	Rates  admin.Rates   `json:"rates"`
	Queues []admin.Queue `json:"queues"`
	Limits []admin.Pool  `json:"limits"`
}

// topOnce prints the figures of flowctl top. The filter selects the runs of the counts and the queue.
func (c *command) topOnce(cmd *cobra.Command, filter string) error {
	f, err := admin.ParseFilter(filter, time.Now())
	if err != nil {
		return err
	}
	return c.do(cmd, func(ctx context.Context, s service) error {
		got, err := topFiguresOf(ctx, s, f)
		if err != nil {
			return err
		}
		if c.jsonOut() {
			return c.print(got)
		}
		return c.printTop(&got)
	})
}

func topFiguresOf(ctx context.Context, s service, f admin.Filter) (got topFigures, err error) {
	if got.Counts, err = s.Count(ctx, f); err != nil {
		return got, err
	}
	if got.Rates, err = s.Rates(ctx); err != nil {
		return got, err
	}
	queues, err := s.Queues(ctx, admin.FleetFilter{Queue: f.Queue, Limit: topPage})
	if err != nil {
		return got, err
	}
	limits, err := s.Pools(ctx, admin.PoolFilter{Limit: topPage})
	got.Queues, got.Limits = queues.Queues, limits.Pools
	return got, err
}

// printTop prints the figures as tables. A list without rows has no table.
func (c *command) printTop(got *topFigures) error {
	m := &topModel{got: round{counts: got.Counts, at: time.Now()}}
	fmt.Fprintf(c.Stdout, "%s\nlast minute: %s, workers %d\n", clean(m.countLine()), throughput(&got.Rates), got.Rates.Workers)
	for _, table := range []struct {
		rows  int
		print func() error
	}{
		{len(got.Rates.Steps), func() error { return printTable(c, admin.StepRateColumns, got.Rates.Steps) }},
		{len(got.Queues), func() error { return printTable(c, admin.QueueColumns, got.Queues) }},
		{len(got.Limits), func() error { return printTable(c, admin.PoolColumns, got.Limits) }},
	} {
		if table.rows == 0 {
			continue
		}
		fmt.Fprintln(c.Stdout)
		if err := table.print(); err != nil {
			return err
		}
	}
	return nil
}

// steps returns the steps whose rates are known.
func (r *round) steps() []admin.StepRate {
	if r.rates == nil {
		return nil
	}
	return r.rates.Steps
}
