package cli

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

func (c *command) alerts() *cobra.Command {
	var f admin.AlertFilter
	cmd := &cobra.Command{
		Use: "alerts", Short: "List alerts and their delivery, newest first", Args: cobra.NoArgs,
		Long: "Alerts lists what workers have reported by their rules. STATE is pending, retrying, delivered, or failed: the target has\n" +
			"not accepted the alert for a day. MESSAGE is the error of the last attempt if the alert was not delivered.",
		Example: "  flowctl alerts --target ops\n  flowctl alerts -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.do(cmd, func(ctx context.Context, s service) error {
				page, err := admin.Alerts(ctx, s, f)
				if err != nil {
					return err
				}
				return c.printAlerts(page)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Target, "target", "", "alerts to the target with this name")
	flags.IntVar(&f.Limit, "limit", 0, "maximum number of alerts, up to 1,000; 0: 100")
	flags.StringVar(&f.Cursor, "cursor", "", "continue after the page that printed this cursor")
	return cmd
}

func (c *command) printAlerts(page admin.AlertPage) error {
	if c.output == "json" {
		return c.print(page)
	}
	printed, err := printEach(c, page.Alerts, func(a *admin.Alert) string { return string(a.ID) })
	if err == nil && !printed {
		err = printTable(c, admin.AlertColumns, page.Alerts)
		for _, target := range unservedTargets(page.Alerts) {
			fmt.Fprintf(c.Stderr, "no live worker has target %s: its alerts wait for one\n", clean(target))
		}
	}
	if err == nil && page.Cursor != "" && c.output != "jsonl" {
		fmt.Fprintf(c.Stderr, "more results: --cursor %s\n", page.Cursor)
	}
	return err
}

// unservedTargets returns the sorted targets that no live worker has.
func unservedTargets(alerts []admin.Alert) (targets []string) {
	for i := range alerts {
		if alerts[i].Unserved {
			targets = append(targets, alerts[i].Target)
		}
	}
	slices.Sort(targets)
	return slices.Compact(targets)
}
