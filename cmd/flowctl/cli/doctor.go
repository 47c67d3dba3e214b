package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

func (c *command) doctor() *cobra.Command {
	return &cobra.Command{
		Use: "doctor", Short: "Say how the database of the store is set up, and what is wrong with that", Args: cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		Long: "Doctor looks at every server of the store and prints for each check what it found, what it should be, and what to do.\n" +
			"It changes no data. Its levels are ok; info, a hint: it may be meant so; warn: something will be lost or will stop one\n" +
			"day, or could not be looked at; fail: the store does not work, or runs are being lost.\n\n" +
			"The exit code is 7 if there is a warn or a fail. A kind of store without a doctor, as SQLite, says so: exit code 0.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.do(cmd, func(ctx context.Context, s service) error {
				exam, err := s.Examine(ctx)
				if err != nil {
					return err
				}
				if !exam.Supported {
					fmt.Fprintln(c.Stderr, "This kind of store has no doctor: of how it is set up nothing was looked at.")
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

// printExam prints what a doctor has found.
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
