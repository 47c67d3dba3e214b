package cli

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

// about contains the help text of each action.
var about = map[string]string{
	"cancel":     "Cancel runs: their code can clean up",
	"terminate":  "End runs at once, without cleanup or compensation",
	"pause":      "Pause runs at their next suspension point",
	"resume":     "Resume paused runs",
	"step":       "Execute one operation of runs in debug mode",
	"release":    "Release runs that were started on hold",
	"retry":      "Continue failed runs at the point of failure, in new runs",
	"resume-new": "Continue cancelled runs at the point of cancellation, in new runs",
	"restart":    "Restart runs with the same input, as new runs",
	"fork":       "Repeat runs from a given step, in new runs",
	"delete":     "Delete ended runs",
}

// finals contains the confirmation questions of the actions that cannot be undone.
var finals = map[string]string{
	"delete":    "Delete %d runs and their stored data?",
	"terminate": "End %d runs at once, without cleanup or compensation?",
}

func (c *command) actions() []*cobra.Command {
	var all []*cobra.Command
	for _, verb := range admin.Actions() {
		a := admin.Action{Verb: verb}
		cmd := &cobra.Command{Use: verb + " RUN… | FILTER", Short: about[verb], ValidArgsFunction: c.ids}
		why := "reason, which is recorded in the journal"
		if admin.TakesReason(verb) {
			why = "reason, which is recorded in the log and in the journal"
		}
		cmd.Flags().StringVar(&a.Reason, "reason", "", why)
		cmd.Flags().StringVar(&a.Key, "key", "", "idempotency key: requests with the same key are executed once")
		if verb == "fork" {
			cmd.Flags().StringVar(&a.Step, "step", "", "id or key of the first step to repeat")
		}
		c.byFilter(cmd, &a)
		all = append(all, cmd)
	}
	return all
}

// byFilter adds the flags of a filter. The user gives either a filter or the names of runs.
func (c *command) byFilter(cmd *cobra.Command, a *admin.Action) {
	var f bulkFlags
	f.add(c, cmd)
	cmd.Args = cobra.ArbitraryArgs
	cmd.Long = cmd.Short + ".\n\nWith a filter, the action applies to all matching runs: those that match now and still match when the action reaches them.\n" +
		"At a terminal, type the number of runs to confirm; in scripts, use -y --expect N. --dry-run prints the number and changes nothing.\nThe action continues if this command ends: see flowctl bulk. Exit code 5: some runs were refused, failed or remain."
	cmd.Example = "  flowctl " + a.Verb + " --workflow orders.fulfil --since 24h --dry-run\n  flowctl " + a.Verb + " --tag region=eu -y --expect 1204 --rate 500"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		flag := f.given(cmd)
		switch {
		case len(args) == 0 && flag == "":
			return &admin.InputError{What: a.Verb + ": no runs are given", Fix: "name runs, or give a filter such as --workflow, or --all"}
		case len(args) > 0 && flag != "":
			return &admin.InputError{What: "runs are named, and --" + flag + " is given", Fix: "name runs, or give a filter"}
		case len(args) > 0:
			return c.act(cmd, *a, args)
		}
		return c.actOnAll(cmd, *a, &f)
	}
}

// why adds the flag for a reason that is recorded in the journal but not in a log.
func (c *command) why(cmd *cobra.Command, reason *string) {
	cmd.Flags().StringVar(reason, "reason", "", "reason, which is recorded in the journal")
}

// outcome is the JSON output of an action on one run.
type outcome struct {
	admin.Acted
	Problem *admin.Problem `json:"problem,omitempty"`
}

// act executes an action on each run. It continues with the next run if the action is refused.
func (c *command) act(cmd *cobra.Command, a admin.Action, refs []string) error {
	if err := c.confirm(cmd.Context(), a.Verb, refs); err != nil { // Confirm first, so that the time limit of the store does not include the time of the user.
		return err
	}
	s, ctx, cancel, err := c.service(cmd.Context(), false)
	defer cancel()
	if err != nil {
		return err
	}
	var all []outcome
	refused := 0
	for _, ref := range refs {
		done, err := s.Act(ctx, ref, a)
		if err != nil {
			if len(refs) == 1 {
				return err
			}
			refused++
			done = admin.Acted{Run: ref, Verb: a.Verb}
		}
		all = append(all, outcome{done, admin.ProblemOf(err)})
	}
	if err := c.printOutcomes(all); err != nil {
		return err
	}
	if refused > 0 {
		return exitError{code: exitSome}
	}
	return nil
}

func (c *command) printOutcomes(all []outcome) error {
	switch c.output {
	case "json":
		return c.print(all)
	case "jsonl":
		for i := range all {
			if err := c.print(&all[i]); err != nil {
				return err
			}
		}
		return nil
	case "name":
		for i := range all {
			if _, err := fmt.Fprintln(c.Stdout, all[i].New); err != nil {
				return err
			}
		}
		return nil
	}
	t := newTable(c.Stdout, "RUN", "NEW", "OUTCOME")
	for _, o := range all {
		text := "done"
		if o.Problem != nil {
			text = o.Problem.Detail
		}
		t.row(o.Run, o.New, text)
	}
	return t.end()
}

// confirm asks for confirmation of an action that cannot be undone.
func (c *command) confirm(ctx context.Context, verb string, refs []string) error {
	question, final := finals[verb]
	if !final {
		return nil
	}
	return c.sure(ctx, verb, fmt.Sprintf(question, len(refs)))
}

// sure asks the user to confirm an operation that cannot be undone. The argument what names the
// operation in errors.
func (c *command) sure(ctx context.Context, what, question string) error {
	if c.yes {
		return nil
	}
	if !onTerminal(c.Stdin) {
		return &admin.InputError{What: what + " cannot be undone, and standard input is not a terminal for the confirmation", Fix: "give -y"}
	}
	fmt.Fprint(c.Stderr, question+" [y/N] ")
	answer, err := c.answer(ctx)
	if err != nil || strings.EqualFold(answer, "y") {
		return err
	}
	return exitError{code: exitUsage}
}

// answer reads a line from the terminal. It returns an error if ctx ends, because a signal does not
// interrupt the read. An incomplete line, which occurs if the terminal was closed, counts as empty.
func (c *command) answer(ctx context.Context) (string, error) {
	came := make(chan string, 1)
	go func() { // After a signal the read continues until the process ends.
		line, err := bufio.NewReader(c.Stdin).ReadString('\n')
		if err != nil {
			line = ""
		}
		came <- strings.TrimSpace(line)
	}()
	select {
	case line := <-came:
		return line, nil
	case <-ctx.Done():
		fmt.Fprintln(c.Stderr) // Write a line break after the question.
		return "", ctx.Err()
	}
}
