package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

func (c *command) views() *cobra.Command {
	cmd := &cobra.Command{
		Use: "views", Short: "List the shared views of the store", Args: cobra.NoArgs,
		Long: "Views lists the named filters of runs. The console shows them to all users of the store, above its list of runs.\n" +
			"A filter has the syntax of the console, such as status:failed tag:region=eu since:24h.",
		Example: "  flowctl views save 'Blue failures' 'status:failed tag:team=blue since:24h'\n  flowctl runs --view 'Blue failures'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.do(cmd, func(ctx context.Context, s service) error {
				list, err := s.Views(ctx)
				if err != nil {
					return err
				}
				return c.printViews(list)
			})
		},
	}
	cmd.AddCommand(c.saveView(), c.deleteView())
	return cmd
}

func (c *command) printViews(list admin.ViewList) error {
	if c.output == "json" {
		return c.print(list)
	}
	printed, err := printEach(c, list.Views, func(v *admin.View) string { return v.Name })
	if err != nil || printed {
		return err
	}
	t := newTable(c.Stdout, "NAME", "FILTER", "SAVED", "BY")
	for i := range list.Views {
		v := &list.Views[i]
		t.row(v.Name, v.Filter, instant(v.At), v.By)
	}
	return t.end()
}

func (c *command) saveView() *cobra.Command {
	var v admin.NewView
	cmd := &cobra.Command{
		Use: "save NAME FILTER", Short: "Save a filter of runs under a name, or replace it", Args: cobra.ExactArgs(2), ValidArgsFunction: c.viewNames,
		Example: "  flowctl views save 'Blue failures' 'status:failed tag:team=blue since:24h'",
		RunE: func(cmd *cobra.Command, args []string) error {
			v.Filter = args[1]
			return c.actOnView(cmd, func(ctx context.Context, s service) (admin.ViewActed, error) {
				return s.SaveView(ctx, args[0], v)
			})
		},
	}
	c.why(cmd, &v.Reason)
	return cmd
}

func (c *command) deleteView() *cobra.Command {
	var why admin.Because
	cmd := &cobra.Command{
		Use: "delete NAME", Short: "Delete a view for all users", Args: cobra.ExactArgs(1), ValidArgsFunction: c.viewNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.actOnView(cmd, func(ctx context.Context, s service) (admin.ViewActed, error) {
				return s.DeleteView(ctx, args[0], why)
			})
		},
	}
	c.why(cmd, &why.Reason)
	return cmd
}

func (c *command) actOnView(cmd *cobra.Command, act func(ctx context.Context, s service) (admin.ViewActed, error)) error {
	return c.do(cmd, func(ctx context.Context, s service) error {
		done, err := act(ctx, s)
		if err != nil || !c.jsonOut() {
			return err
		}
		return c.print(done)
	})
}

// ofView returns the filter of the named view with the limit and cursor of page.
func (c *command) ofView(ctx context.Context, s service, name string, page admin.Filter) (admin.Filter, error) {
	list, err := s.Views(ctx)
	if err != nil {
		return page, err
	}
	i := slices.IndexFunc(list.Views, func(v admin.View) bool { return v.Name == name })
	if i < 0 {
		return page, admin.NewProblem(admin.CodeNotFound, fmt.Sprintf("no view is named %q", name), "list the views with flowctl views")
	}
	f, err := admin.ParseFilter(list.Views[i].Filter, time.Now())
	f.Limit, f.Cursor, f.Budget, f.Oldest = page.Limit, page.Cursor, page.Budget, f.Oldest || page.Oldest
	return f, err
}

// viewNames completes the names of shared views.
func (c *command) viewNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.complete(cmd, func(ctx context.Context, s service) (all []string) {
		list, _ := s.Views(ctx)
		for i := range list.Views {
			if name := list.Views[i].Name; name == clean(name) {
				all = append(all, name)
			}
		}
		return all
	})
}
