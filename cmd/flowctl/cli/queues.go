package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

// fleetFlags adds the flags of lists of workers and queues.
func (c *command) fleetFlags(cmd *cobra.Command, f *admin.FleetFilter, what string) {
	flags := cmd.Flags()
	flags.StringVar(&f.Queue, "queue", "", what)
	flags.IntVar(&f.Limit, "limit", 0, "how many at most, up to 1,000; 0: 100")
	flags.StringVar(&f.Cursor, "cursor", "", "go on after a page, which has said its cursor")
	_ = cmd.RegisterFlagCompletionFunc("queue", c.queueNames)
}

// queueNames completes the names of queues: those that have something to do or are served.
func (c *command) queueNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.complete(cmd, func(ctx context.Context, s service) (all []string) {
		page, _ := s.Queues(ctx, admin.FleetFilter{})
		for _, q := range page.Queues {
			all = append(all, clean(q.Queue))
		}
		return slices.Compact(all) // they come in order
	})
}

func (c *command) workers() *cobra.Command {
	var f admin.FleetFilter
	cmd := &cobra.Command{
		Use: "workers", Short: "List the workers, and what they serve", Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Workers lists the workers that the store knows, by name. One that is silent has not been heard of within its lease:\n" +
			"its runs go to others. BUILD is the fingerprint of the code that it executes.",
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
	c.fleetFlags(cmd, &f, "workers that serve this queue")
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
		t := newTable(c.Stdout, "WORKER", "STATE", "BUILD", "RUNNING", "LEASE", "SERVES")
		for i := range page.Workers {
			t.row(c.workerCells(&page.Workers[i])...)
		}
		if err := t.end(); err != nil {
			return err
		}
	}
	c.more(page.Cursor)
	return nil
}

func (c *command) workerCells(w *admin.Worker) []string {
	build := w.Build
	if c.output != "wide" && len(build) > 12 {
		build = build[:12]
	}
	return []string{w.Name, workerState(w), build, fmt.Sprint(w.Running), instant(w.Lease), serves(w, c.output == "wide")}
}

func workerState(w *admin.Worker) string {
	if w.Live {
		return "live"
	}
	return "silent"
}

// serves says what a worker serves: the queues, and with whole each workflow.
func serves(w *admin.Worker, whole bool) string {
	var all []string
	for _, s := range w.Serves {
		if whole {
			all = append(all, s.Queue+"/"+s.Workflow)
		} else {
			all = append(all, s.Queue)
		}
	}
	return strings.Join(slices.Compact(all), ", ")
}

// more says that there are more pages.
func (c *command) more(cursor string) {
	if cursor != "" && c.output != "jsonl" {
		fmt.Fprintf(c.Stderr, "there are more: --cursor %s\n", cursor)
	}
}

func (c *command) queues() *cobra.Command {
	var f admin.FleetFilter
	cmd := &cobra.Command{
		Use: "queues", Short: "List what there is to do on the queues, and who serves them", Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Queues lists for each queue and workflow how many runs are READY and wait for a worker, for how long the OLDEST of them\n" +
			"has waited at most, how many are RUNNING, WAITING for permits of limits, PARKED (they sleep, or wait for messages), or\n" +
			"BLOCKED (no worker has the code for them), which LIMITS its runs use, as workers have said (flowctl pools shows them), and\n" +
			"how many workers serve it. It asks the store: also if no worker runs.",
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
	c.fleetFlags(cmd, &f, "this queue alone")
	return cmd
}

// queueHead is the head of the table of queues.
var queueHead = []string{"QUEUE", "WORKFLOW", "READY", "OLDEST", "RUNNING", "WAITING", "PARKED", "BLOCKED", "LIMITS", "SERVED BY"}

func (c *command) printQueues(page admin.QueuePage) error {
	if c.output == "json" {
		return c.print(page)
	}
	printed, err := printEach(c, page.Queues, func(q *admin.Queue) string { return q.Queue + "/" + cmp.Or(q.Workflow, q.Step) })
	if err != nil {
		return err
	}
	if !printed {
		t := newTable(c.Stdout, queueHead...)
		for i := range page.Queues {
			t.row(queueCells(&page.Queues[i], time.Now())...)
		}
		if err := t.end(); err != nil {
			return err
		}
	}
	c.more(page.Cursor)
	return nil
}

func queueCells(q *admin.Queue, now time.Time) []string {
	mark := ""
	if !q.Exact {
		mark = "~"
	}
	n := func(n int) string { return fmt.Sprint(mark, n) }
	oldest := "-"
	if !q.Oldest.IsZero() {
		oldest = took(now.Sub(q.Oldest))
	}
	by := cmp.Or(plural(q.Workers, "worker"), "nobody")
	if q.Fix != "" {
		by += "! " + q.Fix
	}
	name := q.Workflow
	if q.Step != "" {
		name = "step " + q.Step
	}
	return []string{q.Queue, name, n(q.Ready), oldest, n(q.Running), n(q.Waiting), n(q.Parked), n(q.Blocked), strings.Join(q.Limits, ", "), by}
}

// plural counts things; empty: there is none.
func plural(n int, what string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
