package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
)

func (c *command) fsck() *cobra.Command {
	var repair bool
	cmd := &cobra.Command{
		Use: "fsck", Short: "Check all that the store keeps against the logs of its runs, and repair it", Args: cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Fsck checks every invariant of the store and prints each one that is broken: its number, the run, what is wrong,\n" +
			"and what a repair does about it. It changes nothing without --repair. It reads everything, a partition at a time\n" +
			"and into memory; no time limit holds unless --timeout gives one.\n\n" +
			"Workers may work meanwhile, and several repairs at once. A partition is judged as of one moment, and what is between\n" +
			"partitions last, causes before effects: what is merely under way is no finding. A repair acts only on what is still as it\n" +
			"was when it was judged, makes it again from the log of the run, and takes no run from a worker that can go on with it.\n\n" +
			"The outcome is planned: --repair would do it; repaired; moved: it had changed, and was looked at again; or remains: no\n" +
			"repair makes it go away. The exit code is 7 if something is found, or with --repair if something is left.",
		Example: "  flowctl fsck --json >before.json\n  flowctl fsck --repair",
		RunE: func(cmd *cobra.Command, _ []string) error {
			st, ctx, cancel, err := c.direct(cmd.Context(), "fsck", true)
			defer cancel()
			if err != nil {
				return err
			}
			if repair {
				if err := c.sure("fsck --repair", "Repair all that is found? Without --repair it is only listed."); err != nil {
					return err
				}
			}
			report, err := c.mend(ctx, st, repair)
			if errors.Is(err, fsck.ErrNotRepairable) {
				return admin.NewProblem(admin.CodeUnsupported, "this kind of store can be neither checked nor repaired: "+err.Error(), "let it implement store.Repairer")
			}
			if err != nil && len(report.Fixes) == 0 {
				return err
			}
			if failed := c.printCheck(report, err == nil); err == nil { // what was done is said, however it has ended
				err = failed
			}
			if err == nil && len(report.Remaining) > 0 {
				return exitError{code: exitFound}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "repair what is found; asks before, unless -y is given")
	return cmd
}

// mend checks the store, and repairs it, with an entry in the journal. If that cannot be written, the journal may be
// what is broken: then the store is repaired first.
func (c *command) mend(ctx context.Context, st store.Store, repair bool) (report *fsck.Report, err error) {
	if !repair {
		return fsck.Repair(ctx, st, fsck.Options{DryRun: true})
	}
	do := func() error {
		report, err = fsck.Repair(ctx, st, fsck.Options{})
		return err
	}
	s := c.local()
	if unwritten := admin.Recorded(ctx, s, "repair", "", do); report != nil {
		return report, unwritten
	}
	if err := do(); err != nil {
		return report, err
	}
	if admin.Recorded(ctx, s, "repair", "after the journal was repaired", func() error { return nil }) != nil {
		err = admin.NewProblem(admin.CodeFailed, "the repairs were made, but the journal cannot be written", "execute flowctl doctor")
	}
	return report, err
}

// printCheck prints what was found and done; whole: that is all.
func (c *command) printCheck(report *fsck.Report, whole bool) error {
	switch c.output {
	case "json":
		return c.print(report)
	case "jsonl":
		_, err := printEach(c, report.Fixes, nil)
		return err
	case "name":
		_, err := printEach(c, affected(report.Fixes), func(run *string) string { return *run })
		return err
	}
	if len(report.Fixes) > 0 {
		if err := c.printFixes(report.Fixes); err != nil {
			return err
		}
	}
	if !whole {
		return nil
	}
	_, err := fmt.Fprintln(c.Stdout, summary(report))
	return err
}

func (c *command) printFixes(fixes []fsck.Fix) error {
	head := []string{"INVARIANT", "RUN", "OUTCOME", "WHAT", "REPAIR"}
	if c.output == "wide" {
		head = append(head, "REASON", "WHAT COMES OF IT")
	}
	t := newTable(c.Stdout, head...)
	for i := range fixes {
		fix := &fixes[i]
		if len(fix.Findings) == 0 { // it restores what the repair of another one needs
			t.row("", subject(fix, ""), string(fix.Outcome), "", cmp.Or(fix.Action, fix.Why))
		}
		for _, f := range fix.Findings {
			outcome := fix.Outcome
			if f.Lasting && outcome == fsck.OutcomePlanned {
				outcome = fsck.OutcomeRemains
			}
			row := []string{fmt.Sprint(f.Invariant), subject(fix, string(f.Run)), string(outcome), f.What, cmp.Or(fix.Action, fix.Why)}
			if c.output == "wide" {
				row = append(row, string(fix.Reason), f.Explain)
			}
			t.row(row...)
		}
	}
	return t.end()
}

// subject says what a finding is about: a run, a workflow id, or the store.
func subject(fix *fsck.Fix, run string) string {
	if run = cmp.Or(run, string(fix.Run)); run == "" && fix.WorkflowID != "" {
		return "id:" + fix.WorkflowID
	}
	return run
}

// affected returns the runs that findings are about, each of them once.
func affected(fixes []fsck.Fix) []string {
	var runs []string
	known := map[event.RunID]bool{"": true}
	for i := range fixes {
		for _, f := range fixes[i].Findings {
			if !known[f.Run] {
				known[f.Run] = true
				runs = append(runs, string(f.Run))
			}
		}
	}
	return runs
}

func summary(report *fsck.Report) string {
	left := len(report.Remaining)
	switch {
	case !report.DryRun:
		done := 0
		for i := range report.Fixes {
			if report.Fixes[i].Outcome == fsck.OutcomeRepaired {
				done++
			}
		}
		return fmt.Sprintf("Runs: %d. Repairs made: %d. Findings left: %d.", report.Runs, done, left)
	case left == 0:
		return fmt.Sprintf("Runs: %d. Nothing is wrong.", report.Runs)
	}
	return fmt.Sprintf("Runs: %d. Findings: %d. What is planned, flowctl fsck --repair does.", report.Runs, left)
}
