package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

// fleetFlags adds the flags of the lists of workers and queues.
func (c *command) fleetFlags(cmd *cobra.Command, f *admin.FleetFilter, what string) {
	flags := cmd.Flags()
	flags.StringVar(&f.Queue, "queue", "", what)
	flags.IntVar(&f.Limit, "limit", 0, "maximum number of results, up to 1,000; 0: 100")
	flags.StringVar(&f.Cursor, "cursor", "", "continue after the page that printed this cursor")
	_ = cmd.RegisterFlagCompletionFunc("queue", c.queueNames)
}

// queueNames completes the names of queues that have work or workers.
func (c *command) queueNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.complete(cmd, func(ctx context.Context, s service) (all []string) {
		page, _ := s.Queues(ctx, admin.FleetFilter{})
		for _, q := range page.Queues {
			all = append(all, clean(q.Queue))
		}
		return slices.Compact(all) // The list is sorted by queue.
	})
}

func (c *command) workers() *cobra.Command {
	var f admin.FleetFilter
	cmd := &cobra.Command{
		Use: "workers", Short: "List the workers and their queues", Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Workers lists the workers of the store by name. A silent worker has not renewed its lease in time, and other workers\n" +
			"take over its runs. BUILD is the fingerprint of the code that the worker executes.",
		Example: "  flowctl workers --queue gpu\n  flowctl workers -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.do(cmd, func(ctx context.Context, s service) error {
				page, err := s.Workers(ctx, f)
				if err != nil {
					return err
				}
				return c.printWorkers(page)
			})
		},
	}
	c.fleetFlags(cmd, &f, "workers of this queue")
	return cmd
}

func (c *command) printWorkers(page admin.WorkerPage) error {
	if c.output == "json" {
		return c.print(page)
	}
	printed, err := printEach(c, page.Workers, func(w *admin.Worker) string { return w.Name })
	if err != nil {
		return err
	}
	if !printed {
		if err := printTable(c, admin.WorkerColumns, page.Workers); err != nil {
			return err
		}
	}
	c.more(page.Cursor)
	return nil
}

// more prints how to request the next page. cursor is empty if there is none.
func (c *command) more(cursor string) {
	if cursor != "" && c.output != "jsonl" {
		fmt.Fprintf(c.Stderr, "more results: --cursor %s\n", cursor)
	}
}

func (c *command) queues() *cobra.Command {
	var f admin.FleetFilter
	cmd := &cobra.Command{
		Use: "queues", Short: "List the queues with their runs and workers", Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Queues lists for each queue and workflow the number of runs that are READY and wait for a worker, the maximum time that the\n" +
			"OLDEST of them has waited, the number of runs that are RUNNING, WAITING for permits of limits, PARKED (asleep or waiting\n" +
			"for messages), or BLOCKED (no worker has the code for them), the LIMITS that workers registered for them (see flowctl pools),\n" +
			"and the number of workers. It reads the store and does not need a running worker.",
		Example: "  flowctl queues\n  flowctl queues --queue gpu -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.do(cmd, func(ctx context.Context, s service) error {
				page, err := s.Queues(ctx, f)
				if err != nil {
					return err
				}
				return c.printQueues(page)
			})
		},
	}
	c.fleetFlags(cmd, &f, "only this queue")
	return cmd
}

func (c *command) printQueues(page admin.QueuePage) error {
	if c.output == "json" {
		return c.print(page)
	}
	printed, err := printEach(c, page.Queues, func(q *admin.Queue) string { return q.Queue + "/" + cmp.Or(q.Workflow, q.Step) })
	if err != nil {
		return err
	}
	if !printed {
		if err := printTable(c, admin.QueueColumns, page.Queues); err != nil {
			return err
		}
	}
	c.more(page.Cursor)
	return nil
}

// plural formats a number of things. It returns the empty string for 0.
func plural(n int, what string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
