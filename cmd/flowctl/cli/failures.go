package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

// kindUsage contains the help texts of the flags that select kinds of failures, by kind.
var kindUsage = map[string]string{
	"failed": "that have failed", "retrying": "with a step that is being retried", "blocked": "that are blocked",
}

func (c *command) failures() *cobra.Command {
	var f admin.FailureFilter
	var since string
	cmd := &cobra.Command{
		Use: "failures", Short: "List groups of failures, latest first", Args: cobra.NoArgs,
		Long: "Failures lists groups of runs with the same problem: the runs failed, are retrying a step, or are blocked.\n" +
			"RUNS counts how often a run joined the group, OPEN the runs that are in it now. To list the runs of a group:\n" +
			"flowctl failures show GROUP, or flowctl runs --group GROUP.",
		Example: "  flowctl failures --since 24h\n  flowctl failures --blocked --retrying --workflow orders.fulfil -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if f.Since, err = moment("--since", since); err != nil {
				return err
			}
			for _, kind := range admin.FailureKinds() {
				if set, _ := cmd.Flags().GetBool(kind); set {
					f.Kinds = append(f.Kinds, kind)
				}
			}
			return c.do(cmd, func(ctx context.Context, s service) error {
				page, err := s.Failures(ctx, f)
				if err != nil {
					return err
				}
				return c.printFailures(page)
			})
		},
	}
	flags := cmd.Flags()
	for _, kind := range admin.FailureKinds() {
		flags.Bool(kind, false, "groups of runs "+kindUsage[kind])
	}
	flags.StringVar(&since, "since", "", "groups that a run joined at or after this time, such as 2026-11-24T08:00:00Z, or this long ago, such as 24h")
	flags.StringVar(&f.Workflow, "workflow", "", "groups of the workflow with this stored name")
	flags.StringVar(&f.Step, "step", "", "groups of this step")
	flags.BoolVar(&f.Open, "open", false, "groups that contain runs now")
	flags.IntVar(&f.Limit, "limit", 0, "maximum number of groups, up to 1,000; 0: 100")
	flags.StringVar(&f.Cursor, "cursor", "", "continue after the page that printed this cursor")
	_ = cmd.RegisterFlagCompletionFunc("workflow", c.names(func(n admin.Counted) string { return n.Workflow }))
	cmd.AddCommand(c.showFailure())
	return cmd
}

func (c *command) printFailures(page admin.FailurePage) error {
	if c.output == "json" {
		return c.print(page)
	}
	printed, err := printEach(c, page.Groups, func(g *admin.FailureGroup) string { return g.Group })
	if err != nil {
		return err
	}
	if !printed {
		shown, mark := columns(c, admin.FailureColumns), ""
		if page.Partial {
			mark = "~"
		}
		t := newTable(c.Stdout, headOf(shown)...)
		for i := range page.Groups {
			cells := cellsOf(shown, &page.Groups[i], time.Now(), instant)
			for k, col := range shown {
				if col.Kind == admin.KindNumber {
					cells[k] = mark + cells[k]
				}
			}
			t.row(cells...)
		}
		if err := t.end(); err != nil {
			return err
		}
	}
	if page.Cursor != "" && c.output != "jsonl" {
		fmt.Fprintf(c.Stderr, "more results: --cursor %s\n", page.Cursor)
	}
	return nil
}

// shownFailure is the JSON output for a failure group with some of its runs.
type shownFailure struct {
	admin.FailureGroup

	List admin.RunPage `json:"list"`
}

func (c *command) showFailure() *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use: "show GROUP", Short: "Show a group and the newest runs in it", Args: cobra.ExactArgs(1),
		ValidArgsFunction: c.groups,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.do(cmd, func(ctx context.Context, s service) error {
				page, err := s.Failures(ctx, admin.FailureFilter{Group: args[0]})
				if err != nil {
					return err
				}
				if len(page.Groups) == 0 {
					return admin.NewProblem(admin.CodeNotFound, "there is no group "+args[0], "list the groups with flowctl failures")
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
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 20, "maximum number of runs, up to 1,000")
	return cmd
}

func (c *command) printFailure(g *admin.FailureGroup) error {
	t := newTable(c.Stdout, g.Group, g.Kind)
	t.row("where", g.Place())
	t.row("message", g.Message)
	t.row("runs", fmt.Sprintf("%d, %d now in the group", g.Runs, g.Open))
	t.row("first", instant(g.First))
	t.row("last", instant(g.Last))
	if err := t.end(); err != nil {
		return err
	}
	_, err := fmt.Fprintln(c.Stdout)
	return err
}

// groups completes the IDs of failure groups.
func (c *command) groups(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.complete(cmd, func(ctx context.Context, s service) (all []string) {
		page, _ := s.Failures(ctx, admin.FailureFilter{})
		for _, g := range page.Groups {
			all = append(all, g.Group+"\t"+g.Kind+" "+clean(g.Place()))
		}
		return all
	})
}
