package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/worker"
)

// bulkFlags contains the flags of an action on all runs that a filter selects.
type bulkFlags struct {
	filterFlags
	all, dry, leave   bool
	expect            int
	rate, maxFailures int
}

func (f *bulkFlags) add(c *command, cmd *cobra.Command) {
	f.filterFlags.add(c, cmd)
	_ = cmd.Flags().MarkHidden("budget") // The budget applies only to pages of lists.
	flags := cmd.Flags()
	flags.BoolVar(&f.all, "all", false, "all runs, without a filter")
	flags.BoolVar(&f.dry, "dry-run", false, "print what would be done without doing it")
	flags.BoolVar(&f.leave, "no-wait", false, "do not wait for the end: a worker of the queue "+admin.AdminQueue+", such as the one of flowctl serve, executes the action")
	flags.IntVar(&f.expect, "expect", 0, "with -y: expected number of runs; the action is refused if the number differs by more than a tenth")
	flags.IntVar(&f.rate, "rate", 0, fmt.Sprintf("maximum number of runs per second; 0: %d", admin.DefaultBulkRate))
	flags.IntVar(&f.maxFailures, "max-failures", 0, fmt.Sprintf("number of failures after which the action ends; 0: %d", admin.DefaultBulkFailures))
}

// given returns the name of the first given flag that must not be combined with names of runs, or
// "".
func (f *bulkFlags) given(cmd *cobra.Command) (name string) {
	return changed(cmd, append([]string{"all", "dry-run", "no-wait", "expect", "rate", "max-failures"}, filterNames...))
}

// actOnAll executes an action on all runs that a filter selects.
func (c *command) actOnAll(cmd *cobra.Command, a admin.Action, f *bulkFlags) error {
	filter, err := f.filter()
	if err != nil {
		return err
	}
	s, ctx, cancel, err := c.service(cmd.Context(), true)
	defer cancel()
	if err != nil {
		return err
	}
	r := admin.BulkRequest{Filter: filter, All: f.all, Action: a}
	p, err := s.Preview(ctx, r)
	if err != nil {
		return err
	}
	if f.dry {
		return c.printPreview(a.Verb, &p)
	}
	b := admin.NewBulk{Token: p.Token, Rate: f.rate, MaxFailures: f.maxFailures}
	switch {
	case c.yes && !cmd.Flags().Changed("expect"):
		return &admin.InputError{What: fmt.Sprintf("-y without --expect would %s all matching runs", a.Verb), Fix: "give --expect N: flowctl " + a.Verb + " … --dry-run prints the number"}
	case c.yes:
		b.Token, b.BulkRequest, b.Expect = "", r, &f.expect
	case p.Count == 0:
		fmt.Fprintln(c.Stderr, "no run matches")
		return nil
	default:
		if err := c.typed(ctx, a.Verb, &p); err != nil {
			return err
		}
	}
	started, err := s.StartBulk(ctx, b)
	if err != nil {
		return err
	}
	if f.leave {
		return c.leaveBulk(&started)
	}
	fmt.Fprintf(c.Stderr, "%s continues if this command ends: see flowctl bulk show %s\n", started.ID, started.ID)
	return c.awaitBulk(ctx, s, started.ID)
}

// typed requires the user to confirm a bulk action by typing the number of runs.
func (c *command) typed(ctx context.Context, verb string, p *admin.BulkPreview) error {
	if !onTerminal(c.Stdin) {
		return &admin.InputError{What: fmt.Sprintf("%s of %d runs, and standard input is not a terminal for the confirmation", verb, p.Count), Fix: fmt.Sprintf("give -y --expect %d", p.Count)}
	}
	c.tellPreview(verb, p)
	fmt.Fprintf(c.Stderr, "%s %d runs? Type the number to confirm: ", verb, p.Count)
	answer, err := c.answer(ctx)
	if err != nil || answer == strconv.Itoa(p.Count) {
		return err
	}
	fmt.Fprintln(c.Stderr, "nothing was done")
	return exitError{code: exitUsage}
}

// printPreview prints the preview of a bulk action to standard output.
func (c *command) printPreview(verb string, p *admin.BulkPreview) error {
	if c.jsonOut() {
		return c.print(p)
	}
	if printed, err := printEach(c, p.Samples, func(r *admin.Run) string { return r.ID }); printed || err != nil {
		return err
	}
	t := newTable(c.Stdout, verb, "RUNS")
	previewRows(t, p)
	return t.end()
}

// tellPreview prints the preview of a bulk action to standard error.
func (c *command) tellPreview(verb string, p *admin.BulkPreview) {
	t := newTable(c.Stderr, verb, "RUNS")
	previewRows(t, p)
	_ = t.end() // An output error is ignored, because the question follows in any case.
}

func previewRows(t *table, p *admin.BulkPreview) {
	t.row("all", strconv.Itoa(p.Count))
	for _, n := range p.Statuses {
		t.row(n.Name, strconv.Itoa(n.Runs))
	}
	for _, n := range p.Groups {
		t.row(n.Name, strconv.Itoa(n.Runs))
	}
	for _, n := range p.Refusals {
		t.row("refused, status "+n.Name, strconv.Itoa(n.Runs))
	}
	for i := range p.Samples {
		r := &p.Samples[i]
		t.row("such as "+cmp.Or(r.WorkflowID, r.ID), r.Status+" "+r.Workflow)
	}
}

// unserved is the message for a bulk action that no worker executes.
const unserved = "no worker serves the queue " + admin.AdminQueue + ": start flowctl serve, or call admin.Register on a worker\n"

// leaveBulk prints a bulk action and does not wait for its end.
func (c *command) leaveBulk(b *admin.Bulk) error {
	if b.Unserved {
		fmt.Fprint(c.Stderr, unserved)
	}
	return c.printBulks([]admin.Bulk{*b}, true)
}

// awaitBulk waits for the end of a bulk action and prints its progress. With direct access to the
// store, this process executes the action together with other workers.
func (c *command) awaitBulk(ctx context.Context, s service, id string) (err error) {
	if c.client != nil {
		stop := c.serveAdmin(ctx)
		defer func() {
			if failed := stop(); err == nil {
				err = failed
			}
		}()
	}
	said, told := "", false
	for {
		b, err := s.Bulk(ctx, id)
		if err != nil {
			return err
		}
		if now := fmt.Sprintf("%s: %d done, %d failed, %d refused, %d skipped, %d remain", b.Status, b.Done, b.Failed, b.Refused, b.Skipped, b.Left); now != said {
			fmt.Fprintln(c.Stderr, now)
			said = now
		}
		if !b.Ended.IsZero() {
			return c.endBulk(&b)
		}
		if b.Unserved && c.client == nil && !told {
			fmt.Fprint(c.Stderr, unserved)
			told = true
		}
		if _, err := s.Wait(ctx, "id:"+id, time.Second); err != nil {
			return err
		}
	}
}

// endBulk prints a bulk action that has ended. It returns an error with the exit code.
func (c *command) endBulk(b *admin.Bulk) error {
	if err := c.printBulks([]admin.Bulk{*b}, true); err != nil {
		return err
	}
	if b.Failed+b.Refused+b.Left > 0 || b.Status == admin.BulkFailed {
		return exitError{code: exitSome}
	}
	return nil
}

// printBulks prints bulk actions. If one is true, all contains a single action, which is printed
// with its failures.
func (c *command) printBulks(all []admin.Bulk, one bool) error {
	if c.output == "json" && one {
		return c.print(&all[0])
	}
	if printed, err := printEach(c, all, func(b *admin.Bulk) string { return b.ID }); printed || err != nil {
		return err
	}
	if err := printTable(c, admin.BulkColumns, all); err != nil || !one {
		return err
	}
	if all[0].Failure != "" {
		if _, err := fmt.Fprintln(c.Stdout, clean(all[0].Failure)); err != nil {
			return err
		}
	}
	if len(all[0].Failures) == 0 {
		return nil
	}
	t := newTable(c.Stdout, "RUN", "OUTCOME", "WHY")
	for _, f := range all[0].Failures {
		t.row(f.Run, f.Outcome, f.Detail)
	}
	return t.end()
}

func (c *command) bulk() *cobra.Command {
	var f admin.BulkFilter
	cmd := &cobra.Command{
		Use: "bulk", Short: "List bulk actions, newest first", Args: cobra.NoArgs,
		Long: "Bulk lists the actions on all runs of a filter, such as those started by flowctl cancel --workflow orders.fulfil.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.do(cmd, func(ctx context.Context, s service) error {
				page, err := s.Bulks(ctx, f)
				if err != nil {
					return err
				}
				if c.output == "json" {
					return c.print(page)
				}
				if err := c.printBulks(page.Bulks, false); err != nil {
					return err
				}
				if page.Cursor != "" && c.output != "jsonl" {
					fmt.Fprintf(c.Stderr, "more results: --cursor %s\n", page.Cursor)
				}
				return nil
			})
		},
	}
	cmd.Flags().IntVar(&f.Limit, "limit", 0, "maximum number of actions, up to 1,000; 0: 20")
	cmd.Flags().StringVar(&f.Cursor, "cursor", "", "continue after the page that printed this cursor")
	var wait bool
	show := &cobra.Command{
		Use: "show ID", Short: "Show the progress of a bulk action", Args: cobra.ExactArgs(1), ValidArgsFunction: c.bulkIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, ctx, cancel, err := c.service(cmd.Context(), wait)
			defer cancel()
			if err != nil {
				return err
			}
			if wait {
				return c.awaitBulk(ctx, s, args[0])
			}
			b, err := s.Bulk(ctx, args[0])
			if err != nil {
				return err
			}
			if b.Unserved && b.Ended.IsZero() {
				fmt.Fprint(c.Stderr, unserved)
			}
			return c.printBulks([]admin.Bulk{b}, true)
		},
	}
	show.Flags().BoolVar(&wait, "wait", false, "wait for the end of the action; with --store, this command executes it")
	cmd.AddCommand(show, c.stopBulk())
	return cmd
}

func (c *command) stopBulk() *cobra.Command {
	var why admin.Because
	cmd := &cobra.Command{
		Use: "stop ID", Short: "Cancel a bulk action: it does not act on further runs", Args: cobra.ExactArgs(1), ValidArgsFunction: c.bulkIDs,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.do(cmd, func(ctx context.Context, s service) error {
				b, err := s.StopBulk(ctx, args[0], why)
				if err != nil {
					return err
				}
				return c.leaveBulk(&b)
			})
		},
	}
	c.why(cmd, &why.Reason)
	return cmd
}

// bulkIDs completes the IDs of bulk actions.
func (c *command) bulkIDs(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.complete(cmd, func(ctx context.Context, s service) (all []string) {
		page, _ := s.Bulks(ctx, admin.BulkFilter{})
		for _, b := range page.Bulks {
			all = append(all, b.ID+"\t"+b.Status+" "+b.Action.Verb)
		}
		return all
	})
}

// serveAdmin runs a worker for the queue of operators, which executes bulk actions. The worker runs
// until ctx is done or stop is called. Another worker of the queue continues unfinished actions. If
// the store cannot have workers, stop returns an error.
func (c *command) serveAdmin(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	w := worker.New(c.client, worker.Config{Queues: []string{admin.AdminQueue}})
	admin.Register(w, c.onStore())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}
