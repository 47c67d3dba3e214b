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
	"cancel":     "Ask runs to end: their code cleans up",
	"terminate":  "End runs without their code: nothing is cleaned up or undone",
	"pause":      "Let runs stand still from their next suspension point on",
	"resume":     "Let paused runs go on",
	"step":       "Let runs in debug mode do one operation",
	"release":    "Let runs begin that were started on hold",
	"retry":      "Go on where failed runs have failed, in new runs",
	"resume-new": "Go on where runs were cancelled, in new runs",
	"restart":    "Start runs again with their input, in new runs",
	"fork":       "Repeat runs from a step on, in new runs",
	"delete":     "Forget runs that have ended",
}

// finals contains the confirmation questions of the actions that cannot be undone.
var finals = map[string]string{
	"delete":    "Forget %d runs? What is stored of them is removed.",
	"terminate": "End %d runs without their code? Nothing is cleaned up or undone.",
}

func (c *command) actions() []*cobra.Command {
	var all []*cobra.Command
	for _, verb := range admin.Actions() {
		a := admin.Action{Verb: verb}
		cmd := &cobra.Command{Use: verb + " RUN… | FILTER", Short: about[verb], ValidArgsFunction: c.ids}
		why := "why: it stands in the journal"
		if admin.TakesReason(verb) {
			why = "why: it stands in the log, and in the journal"
		}
		cmd.Flags().StringVar(&a.Reason, "reason", "", why)
		cmd.Flags().StringVar(&a.Key, "key", "", "the same request with the same key is carried out once")
		if verb == "fork" {
			cmd.Flags().StringVar(&a.Step, "step", "", "the id or the key of the step to go on from")
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
	cmd.Long = cmd.Short + ".\n\nWith a filter instead of runs it is done with all that match: with those that are there now, and still match at their turn.\n" +
		"People type how many there are, scripts give -y --expect N; --dry-run says it and does nothing. It goes on if this command ends:\nsee flowctl bulk. Exit code 5: a part was refused, has failed or remains."
	cmd.Example = "  flowctl " + a.Verb + " --workflow orders.fulfil --since 24h --dry-run\n  flowctl " + a.Verb + " --tag region=eu -y --expect 1204 --rate 500"
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		flag := f.given(cmd)
		switch {
		case len(args) == 0 && flag == "":
			return &admin.InputError{What: a.Verb + " of which runs?", Fix: "name runs, or give a filter such as --workflow; --all means all"}
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
	cmd.Flags().StringVar(reason, "reason", "", "why: it stands in the journal")
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
		return &admin.InputError{What: what + " cannot be undone, and the input is no terminal for a confirmation", Fix: "give -y"}
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
