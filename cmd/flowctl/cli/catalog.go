package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

func (c *command) catalog() *cobra.Command {
	var f admin.CatalogFilter
	cmd := &cobra.Command{
		Use: "catalog [WORKFLOW]", Short: "List the workflows of the workers with their input schemas", Args: cobra.MaximumNArgs(1), ValidArgsFunction: c.workflows,
		Long: "Catalog lists the workflows that workers registered when they started: the build, the queue, and JSON Schemas of the\n" +
			"input and the result (--json prints them completely). Each build has a line of its own, newest first.",
		Example: "  flowctl catalog orders.fulfil --json | jq '.workflows[0].versions[0].input'",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Workflow = strings.Join(args, "")
			return c.do(cmd, func(ctx context.Context, s service) error {
				page, err := s.Catalog(ctx, f)
				if err != nil {
					return err
				}
				if f.Workflow != "" && len(page.Workflows) == 0 {
					return admin.NewProblem(admin.CodeNotFound, "no worker has registered workflow "+f.Workflow, "list the registered workflows with flowctl catalog: workers register theirs when they start")
				}
				return c.printCatalog(page)
			})
		},
	}
	cmd.Flags().IntVar(&f.Limit, "limit", 0, "maximum number of workflows, up to 1,000; 0: 100")
	cmd.Flags().StringVar(&f.After, "after", "", "continue after the page that printed this value")
	return cmd
}

func (c *command) printCatalog(page admin.CatalogPage) error {
	if c.output == "json" {
		return c.print(page)
	}
	printed, err := printEach(c, page.Workflows, func(w *admin.CatalogWorkflow) string { return w.Workflow })
	if err != nil {
		return err
	}
	if !printed {
		t := newTable(c.Stdout, "WORKFLOW", "QUEUE", "BUILD", "SINCE", "LIMITS", "INPUT")
		for i := range page.Workflows {
			for _, v := range page.Workflows[i].Versions {
				t.row(page.Workflows[i].Workflow, v.Queue, v.Build, instant(v.At), strings.Join(v.Limits, ", "), string(v.Input))
			}
		}
		if err := t.end(); err != nil {
			return err
		}
	}
	if page.Next != "" && c.output != "jsonl" {
		fmt.Fprintf(c.Stderr, "more results: --after %s\n", clean(page.Next))
	}
	return nil
}

// workflows completes the names of workflows that are in the catalog or have runs.
func (c *command) workflows(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.complete(cmd, func(ctx context.Context, s service) (all []string) {
		page, _ := s.Catalog(ctx, admin.CatalogFilter{Limit: 1000})
		known := map[string]bool{}
		add := func(name string) {
			if name = clean(name); !known[name] {
				known[name] = true
				all = append(all, name)
			}
		}
		for i := range page.Workflows {
			add(page.Workflows[i].Workflow)
		}
		counts, _ := s.Count(ctx, admin.Filter{Children: true})
		for _, n := range counts.Counts {
			add(n.Workflow)
		}
		return all
	})
}
