package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

func (c *command) deploys() *cobra.Command {
	cmd := &cobra.Command{
		Use: "deploys", Aliases: []string{"deploy"}, Short: "List the builds of the workers and the open runs that need them", Args: cobra.NoArgs,
		Long: "Deploys lists the builds that workers have run, newest first. NEEDS is the number of open runs that need a build, because\n" +
			"its workers have executed them last. BLOCKED is the number of those that no live worker can continue. STARTED counts the\n" +
			"runs that a build has begun, among the newest 1,000 runs. PERCENT is the share of the new runs of pinned workflows.",
		Example: "  flowctl deploys\n  flowctl deploys ramp v2=5\n  flowctl deploys drained v1 && kubectl delete deployment worker-v1",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.do(cmd, func(ctx context.Context, s service) error {
				all, err := s.Deploys(ctx)
				if err != nil {
					return err
				}
				return c.printDeploys(all)
			})
		},
	}
	list := *cmd
	list.Use, list.Aliases, list.Example = "list", nil, ""
	cmd.AddCommand(&list, c.ramp(), c.deployAction("retire", "Take a build out of use: it gets no new runs of pinned workflows, and its pinned runs move"),
		c.deployAction("unretire", "Take a retired build into use again"), c.drained())
	return cmd
}

func (c *command) printDeploys(all admin.Deploys) error {
	if c.output == "json" {
		return c.print(all)
	}
	printed, err := printEach(c, all.Builds, func(d *admin.Deploy) string { return d.Build })
	if err == nil && !printed {
		err = printTable(c, admin.DeployColumns, all.Builds)
	}
	if err != nil || c.output == "jsonl" || c.output == "name" {
		return err
	}
	for i := range all.Builds {
		d := &all.Builds[i]
		for _, r := range d.Blocked {
			first, _, _ := strings.Cut(r.Reason, "\n")
			fmt.Fprintf(c.Stdout, "blocked, last executed by %s: %s %s: %s\n", clean(d.Build), clean(r.Run), clean(r.Workflow), clean(first))
		}
		if more := d.BlockedRuns - len(d.Blocked); more > 0 {
			fmt.Fprintf(c.Stdout, "%d more blocked runs of %s\n", more, clean(d.Build))
		}
	}
	if all.Partial {
		fmt.Fprintf(c.Stderr, "not all open runs were read: the numbers are lower bounds after %d runs\n", all.Read)
	}
	return nil
}

func (c *command) ramp() *cobra.Command {
	var reason string
	var reset bool
	cmd := &cobra.Command{
		Use: "ramp BUILD=PERCENT...", Short: "Distribute the new runs of pinned workflows over builds", ValidArgsFunction: c.buildNames,
		Long: "Ramp distributes the new runs of pinned workflows over builds. The percentages of several builds must sum to 100. With one\n" +
			"build, the others share the rest in proportion to their present percentages. Each program uses the new percentages within\n" +
			"5 seconds. Existing runs do not move. --reset removes the distribution.",
		Example: "  flowctl deploys ramp v2=5\n  flowctl deploys ramp v1=50 v2=50\n  flowctl deploys ramp v2=100\n  flowctl deploys ramp --reset",
		RunE: func(cmd *cobra.Command, args []string) error {
			percent, err := percentages(args)
			if err == nil && reset == (len(percent) > 0) {
				err = &admin.InputError{What: "ramp takes builds or --reset", Fix: "give a build with its percentage, such as v2=5, or --reset alone"}
			}
			if err != nil {
				return err
			}
			return c.do(cmd, func(ctx context.Context, s service) error {
				got, err := s.Ramp(ctx, admin.Ramp{Percent: percent, Reason: reason})
				if err != nil {
					return err
				}
				if c.jsonOut() {
					return c.print(got)
				}
				if len(got.Percent) == 0 {
					fmt.Fprintln(c.Stdout, "no distribution: a new run goes to the build of the program that starts it, or to the newest build")
				}
				for _, build := range slices.Sorted(maps.Keys(got.Percent)) {
					fmt.Fprintf(c.Stdout, "%s: %d %%\n", clean(build), got.Percent[build])
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&reset, "reset", false, "remove the distribution")
	cmd.Flags().StringVar(&reason, "reason", "", "reason, which is recorded in the journal")
	return cmd
}

// percentages parses arguments such as v2=5.
func percentages(args []string) (map[string]int, error) {
	percent := map[string]int{}
	for _, arg := range args {
		build, text, found := strings.Cut(arg, "=")
		n, err := strconv.ParseInt(strings.TrimSuffix(text, "%"), 10, 32)
		if _, twice := percent[build]; !found || build == "" || err != nil || twice {
			return nil, &admin.InputError{What: fmt.Sprintf("%q is not a build with its percentage, or the build is given twice", arg), Fix: "give each build once, such as v2=5"}
		}
		percent[build] = int(n)
	}
	return percent, nil
}

func (c *command) deployAction(verb, about string) *cobra.Command {
	a := admin.DeployAction{Verb: verb}
	cmd := &cobra.Command{
		Use: verb + " BUILD", Short: about, Args: cobra.ExactArgs(1), ValidArgsFunction: c.buildNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.do(cmd, func(ctx context.Context, s service) error {
				done, err := s.ActOnDeploy(ctx, args[0], a)
				if err != nil {
					return err
				}
				if c.jsonOut() {
					return c.print(done)
				}
				fmt.Fprintf(c.Stdout, "%s: %sd\n", clean(done.Build), verb)
				if verb == "retire" {
					fmt.Fprintf(c.Stderr, "flowctl deploys drained %s reports when its workers can be removed\n", clean(done.Build))
				}
				return nil
			})
		},
	}
	if verb == "retire" {
		cmd.Flags().StringVar(&a.To, "to", "", "build that receives the pinned runs; empty: any build")
	}
	cmd.Flags().StringVar(&a.Reason, "reason", "", "reason, which is recorded in the journal")
	return cmd
}

// The exit codes of flowctl deploys drained. 0 means that the build can be removed.
const (
	exitNeeded  = 1
	exitUnknown = 9
)

func (c *command) drained() *cobra.Command {
	return &cobra.Command{
		Use: "drained BUILD", Short: "Report whether the workers of a build can be removed", Args: cobra.ExactArgs(1), ValidArgsFunction: c.buildNames,
		Long: "Drained reports whether the workers of a build can be removed: none of them claims runs, and no open run needs the build.\n" +
			"Exit codes: 0 the build can be removed, 1 it takes new runs or open runs need it, 9 that is unknown. All other codes mean that\n" +
			"there is no answer; 1 also if the store has failed.",
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.do(cmd, func(ctx context.Context, s service) error {
				d, err := s.Drained(ctx, args[0])
				if err != nil {
					return err
				}
				if err := c.printDrained(d); err != nil {
					return err
				}
				switch d.Answer {
				case admin.DrainedYes:
					return nil
				case admin.DrainedNo:
					return exitError{code: exitNeeded}
				}
				return exitError{code: exitUnknown}
			})
		},
	}
}

func (c *command) printDrained(d admin.Drained) error {
	if c.jsonOut() {
		return c.print(d)
	}
	if d.Answer == admin.DrainedYes {
		fmt.Fprintf(c.Stdout, "%s: drained: its workers can be removed\n", clean(d.Build))
		return nil
	}
	fmt.Fprintf(c.Stdout, "%s: %s: %s\n", clean(d.Build), clean(d.Answer), clean(d.Reason))
	for _, r := range d.Runs {
		may := ""
		if r.Unsure {
			may = "perhaps: "
		}
		fmt.Fprintf(c.Stdout, "  %s %s (%s): %s%s\n", clean(r.Run), clean(r.Workflow), clean(r.Status), may, clean(r.Reason))
	}
	if more := d.Needs + d.Unsure - len(d.Runs); more > 0 {
		fmt.Fprintf(c.Stdout, "  %d more runs\n", more)
	}
	return nil
}

// buildNames completes the names of builds.
func (c *command) buildNames(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.complete(cmd, func(ctx context.Context, s service) (names []string) {
		all, _ := s.Deploys(ctx)
		for i := range all.Builds {
			names = append(names, clean(all.Builds[i].Build))
		}
		return names
	})
}
