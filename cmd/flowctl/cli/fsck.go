package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/store/fsck"
)

func (c *command) fsck() *cobra.Command {
	var repair bool
	var why admin.Because
	cmd := &cobra.Command{
		Use: "fsck", Short: "Check the stored data against the logs of the runs, and repair it", Args: cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Fsck checks every invariant of the store and prints each violation: the number of the invariant, the run, the problem,\n" +
			"and the repair. It changes nothing without --repair. It reads all data into memory, one partition at a time.\n" +
			"There is no time limit unless --timeout sets one. If $FLOWGEN_CODEC_BLOBS names a directory, fsck reports the payloads of runs\n" +
			"that are missing there, and those to which no run refers. It needs no key.\n\n" +
			"Workers and other repairs may run at the same time. Fsck checks each partition as of one moment, and the data that spans\n" +
			"partitions last, causes before effects, so that operations in progress are not reported. A repair changes only data that\n" +
			"has not changed since the check. It deletes the data of a run beside its log and rebuilds it from the log; a worker that\n" +
			"has claimed the run loses the claim.\n\n" +
			"The outcome is planned: --repair would repair it; repaired; moved: the data changed and was checked again; or remains: it\n" +
			"cannot be repaired. The exit code is 7 if a violation is found, or with --repair, if one remains.",
		Example: "  flowctl fsck --json >before.json\n  flowctl fsck --repair",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if why.Reason != "" && !repair {
				return &admin.InputError{What: "--reason is given, but a check changes nothing", Fix: "give it with --repair"}
			}
			s, ctx, cancel, err := c.service(cmd.Context(), true)
			defer cancel()
			if err != nil {
				return err
			}
			if repair {
				if err := c.sure(ctx, "fsck --repair", "Repair all violations? Without --repair they are only listed."); err != nil {
					return err
				}
			}
			checked, err := c.checked(ctx, s, repair, why)
			if err != nil && len(checked.Fixes) == 0 {
				return err
			}
			if failed := c.printCheck(&checked, err == nil); err == nil { // Print the results even after an error.
				err = failed
			}
			if err == nil && checked.Left > 0 {
				return exitError{code: exitFound}
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&repair, "repair", false, "repair the violations, after a confirmation unless -y is given")
	c.why(cmd, &why.Reason)
	return cmd
}

// checked checks the store and repairs it if repair is true. With direct access to the store, it
// returns all fixes, including those that were made before an error.
func (c *command) checked(ctx context.Context, s service, repair bool, why admin.Because) (admin.Checked, error) {
	switch {
	case c.store != nil:
		report, err := c.mend(ctx, repair, why.Reason)
		if errors.Is(err, fsck.ErrNotRepairable) {
			err = admin.NewProblem(admin.CodeUnsupported, "this kind of store cannot be checked or repaired: "+err.Error(), "let it implement store.Rebuilder")
		}
		if report == nil {
			return admin.Checked{}, err
		}
		return admin.CheckedOf(report), err
	case repair:
		return s.Repair(ctx, why)
	}
	return s.Check(ctx)
}

// mend checks the open store. If repair is true, it repairs the store and writes an entry to the
// journal. If the entry cannot be written, the journal itself may be damaged. In that case mend
// repairs the store first.
func (c *command) mend(ctx context.Context, repair bool, reason string) (report *fsck.Report, err error) {
	if !repair {
		return fsck.Repair(ctx, c.client.Store(), fsck.Options{DryRun: true})
	}
	s := c.local()
	do := func() error {
		report, err = fsck.Repair(ctx, c.client.Store(), fsck.Options{})
		return err
	}
	unwritten := s.Recorded(ctx, "repair", "", reason, do)
	if _, bad := errors.AsType[*admin.InputError](unwritten); bad || report != nil {
		return report, unwritten
	}
	if err := do(); err != nil {
		return report, err
	}
	if s.Recorded(ctx, "repair", "after the journal was repaired", reason, func() error { return nil }) != nil {
		err = admin.NewProblem(admin.CodeFailed, "the repairs were made, but were not recorded in the journal", "execute flowctl doctor")
	}
	return report, err
}

// printCheck prints findings and repairs. If whole is false, the check ended early because of an
// error.
func (c *command) printCheck(checked *admin.Checked, whole bool) error {
	if c.output == "json" {
		return c.print(checked)
	}
	if left := checked.Total - len(checked.Fixes); left > 0 {
		fmt.Fprintf(c.Stderr, "%d more repairs are not listed: use --store instead of --server to list all\n", left)
	}
	switch c.output {
	case "jsonl":
		_, err := printEach(c, checked.Fixes, nil)
		return err
	case "name":
		_, err := printEach(c, affected(checked.Fixes), func(run *string) string { return *run })
		return err
	}
	if len(checked.Fixes) > 0 {
		if err := c.printFixes(checked.Fixes); err != nil {
			return err
		}
	}
	if !whole {
		return nil
	}
	_, err := fmt.Fprintln(c.Stdout, summary(checked))
	return err
}

func (c *command) printFixes(fixes []admin.Mending) error {
	head := []string{"INVARIANT", "RUN", "OUTCOME", "WHAT", "REPAIR"}
	if c.output == "wide" {
		head = append(head, "REASON", "WHAT COMES OF IT")
	}
	t := newTable(c.Stdout, head...)
	for i := range fixes {
		fix := &fixes[i]
		if len(fix.Broken) == 0 { // The fix only restores data that another fix needs.
			t.row("", fix.Run, fix.Outcome, "", cmp.Or(fix.Action, fix.Why))
		}
		for _, b := range fix.Broken {
			outcome := fix.Outcome
			if b.Lasting && outcome == string(fsck.OutcomePlanned) {
				outcome = string(fsck.OutcomeRemains)
			}
			row := []string{fmt.Sprint(b.Invariant), cmp.Or(b.Run, fix.Run), outcome, b.What, cmp.Or(fix.Action, fix.Why)}
			if c.output == "wide" {
				row = append(row, fix.Reason, b.Explain)
			}
			t.row(row...)
		}
	}
	return t.end()
}

// affected returns the runs to which findings refer, without duplicates.
func affected(fixes []admin.Mending) []string {
	var runs []string
	known := map[string]bool{"": true}
	for i := range fixes {
		for _, b := range fixes[i].Broken {
			if !known[b.Run] {
				known[b.Run] = true
				runs = append(runs, b.Run)
			}
		}
	}
	return runs
}

func summary(checked *admin.Checked) string {
	switch {
	case checked.Repair:
		return fmt.Sprintf("Runs: %d. Repairs made: %d. Findings left: %d.", checked.Runs, checked.Done, checked.Left)
	case checked.Left == 0:
		return fmt.Sprintf("Runs: %d. No violations.", checked.Runs)
	}
	return fmt.Sprintf("Runs: %d. Findings: %d. To make the planned repairs, execute flowctl fsck --repair.", checked.Runs, checked.Left)
}

func (c *command) doctor() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Check the configuration of the store's database", Args: cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Doctor checks every server of the store and prints for each check the value found, the value expected, and how to fix it.\n" +
			"With $FLOWGEN_CODEC_KEYS_FILE or $FLOWGEN_CODEC_BLOBS it also checks the keys and the directory of offloaded payloads.\n" +
			"It changes no data. The levels are ok; info: a hint that may be intended; warn: data may be lost or the store may stop\n" +
			"working later, or the check could not be made; fail: the store does not work, or runs are being lost.\n\n" +
			"The exit code is 7 if a check reports warn or fail. For stores without checks, such as SQLite, it prints a notice and exits with 0.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.do(cmd, func(ctx context.Context, s service) error {
				exam, err := s.Examine(ctx)
				if err != nil {
					return err
				}
				if !exam.Supported {
					fmt.Fprintln(c.Stderr, "This kind of store has no checks: its configuration was not checked.")
				}
				if err := c.printExam(exam); err != nil {
					return err
				}
				if exam.Wrong() {
					return exitError{code: exitFound}
				}
				return nil
			})
		},
	}
}

// printExam prints the findings of flowctl doctor.
func (c *command) printExam(exam admin.Exam) error {
	if c.output == "json" {
		return c.print(exam)
	}
	printed, err := printEach(c, exam.Findings, func(f *admin.ExamFinding) string { return f.Check })
	if printed || err != nil || len(exam.Findings) == 0 {
		return err
	}
	t := newTable(c.Stdout, "LEVEL", "CHECK", "NODE", "FOUND", "WANT", "FIX")
	for _, f := range exam.Findings {
		t.row(f.Severity, f.Check, f.Node, f.Found, f.Want, f.Fix)
	}
	return t.end()
}
