package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

func (c *command) failures() *cobra.Command {
	var f admin.FailureFilter
	var since string
	var blocked, retrying, failed bool
	cmd := &cobra.Command{
		Use: "failures", Short: "List what fails, grouped, the latest first", Args: cobra.NoArgs,
		Long: "Failures lists groups of runs to which the same has happened: they have failed, a step of them is being retried,\n" +
			"or they are blocked. RUNS is how often a run has come into a group, OPEN how many are in it now. Their runs:\n" +
			"flowctl failures show GROUP, or flowctl runs --group GROUP.",
		Example: "  flowctl failures --since 24h\n  flowctl failures --blocked --retrying --workflow orders.fulfil -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if f.Since, err = moment("--since", since); err != nil {
				return err
			}
			for i, set := range []bool{failed, retrying, blocked} { // as FailureKinds has them
				if set {
					f.Kinds = append(f.Kinds, admin.FailureKinds()[i])
				}
			}
			s, ctx, cancel, err := c.service(cmd.Context(), false)
			defer cancel()
			if err != nil {
				return err
			}
			page, err := s.Failures(ctx, f)
			if err != nil {
				return err
			}
			return c.printFailures(page)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&failed, "failed", false, "groups of runs that have failed")
	flags.BoolVar(&retrying, "retrying", false, "groups of runs with a step that is being retried")
	flags.BoolVar(&blocked, "blocked", false, "groups of runs that are blocked")
	flags.StringVar(&since, "since", "", "groups into which a run has come then or later: a time as 2026-11-24T08:00:00Z, or how long ago, as 24h")
	flags.StringVar(&f.Workflow, "workflow", "", "groups of this workflow, by its stored name")
	flags.StringVar(&f.Step, "step", "", "groups of this step")
	flags.BoolVar(&f.Open, "open", false, "groups in which there are runs now")
	flags.IntVar(&f.Limit, "limit", 0, "how many groups at most, up to 1,000; 0: 100")
	flags.StringVar(&f.Cursor, "cursor", "", "go on after a page, which has said its cursor")
	_ = cmd.RegisterFlagCompletionFunc("workflow", c.names(func(n admin.Counted) string { return n.Workflow }))
	cmd.AddCommand(c.showFailure())
	return cmd
}

func (c *command) printFailures(page admin.FailurePage) error {
	switch c.output {
	case "json":
		return c.print(page)
	case "jsonl":
		for i := range page.Groups {
			if err := c.print(&page.Groups[i]); err != nil {
				return err
			}
		}
		return nil
	case "name":
		for i := range page.Groups {
			if _, err := fmt.Fprintln(c.Stdout, page.Groups[i].Group); err != nil {
				return err
			}
		}
	default:
		t := newTable(c.Stdout, "GROUP", "KIND", "RUNS", "OPEN", "FIRST", "LAST", "WORKFLOW/STEP", "MESSAGE")
		mark := ""
		if page.Partial {
			mark = "~"
		}
		for _, g := range page.Groups {
			t.row(g.Group, g.Kind, fmt.Sprint(mark, g.Runs), fmt.Sprint(mark, g.Open), instant(g.First), instant(g.Last), place(&g), g.Message)
		}
		if err := t.end(); err != nil {
			return err
		}
	}
	if page.Cursor != "" {
		fmt.Fprintf(c.Stderr, "there are more: --cursor %s\n", page.Cursor)
	}
	return nil
}

// place names the workflow and the step of a group.
func place(g *admin.FailureGroup) string {
	return strings.TrimSuffix(g.Workflow+"/"+g.Step, "/")
}

// shownFailure is a group with runs of it, as JSON.
type shownFailure struct {
	admin.FailureGroup

	List admin.RunPage `json:"list"`
}

func (c *command) showFailure() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "show GROUP", Short: "Show a group, and the newest runs that are in it now", Args: cobra.ExactArgs(1),
		ValidArgsFunction: c.groups,
		RunE: func(cmd *cobra.Command, args []string) error {
			s, ctx, cancel, err := c.service(cmd.Context(), false)
			defer cancel()
			if err != nil {
				return err
			}
			page, err := s.Failures(ctx, admin.FailureFilter{Group: args[0]})
			if err != nil {
				return err
			}
			if len(page.Groups) == 0 {
				return &admin.Problem{Title: "There is nothing of that name", Status: 404, Code: admin.CodeNotFound, Exit: 3,
					Detail: fmt.Sprintf("there is no group %s", args[0]), Fix: "flowctl failures lists those that there are"}
			}
			g := page.Groups[0]
			f := admin.Filter{Group: g.Group, Children: true, System: true, Limit: limit}
			if c.output != "json" {
				if c.output != "jsonl" && c.output != "name" {
					if err := c.printFailure(&g); err != nil {
						return err
					}
				}
				return c.list(ctx, s, f, false)
			}
			runs, err := s.Runs(ctx, f)
			if err != nil {
				return err
			}
			return c.print(shownFailure{FailureGroup: g, List: runs})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "how many runs at most, up to 1,000")
	return cmd
}

func (c *command) printFailure(g *admin.FailureGroup) error {
	t := newTable(c.Stdout, g.Group, g.Kind)
	t.row("where", place(g))
	t.row("message", g.Message)
	t.row("runs", fmt.Sprintf("%d, of which %d are in it now", g.Runs, g.Open))
	t.row("first", instant(g.First))
	t.row("last", instant(g.Last))
	if err := t.end(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(c.Stdout)
	return err
}

// groups completes the ids of groups.
func (c *command) groups(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	s, ctx, done, err := c.service(ctx, true)
	defer done()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	page, _ := s.Failures(ctx, admin.FailureFilter{})
	var all []string
	for _, g := range page.Groups {
		all = append(all, g.Group+"\t"+g.Kind+" "+clean(place(&g)))
	}
	return all, cobra.ShellCompDirectiveNoFileComp
}
