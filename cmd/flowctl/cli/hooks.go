package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

func (c *command) hooks() *cobra.Command {
	var f admin.HookFilter
	var tags []string
	cmd := &cobra.Command{
		Use: "hooks [RUN]", Short: "List the open hooks of one run or of all runs", Args: cobra.MaximumNArgs(1), ValidArgsFunction: c.ids,
		Long: "Hooks lists the open hooks of a run, or of all open runs. It reads the logs of the runs, --limit runs at a time.\n" +
			"A token is sufficient to send to its run, so it is shown only to callers that may act on runs.",
		Example: "  flowctl hooks id:order-17\n  flowctl hooks --workflow orders.fulfil",
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Run = strings.Join(args, "")
			var err error
			if f.Tags, err = tagsOf(tags); err != nil {
				return err
			}
			return c.do(cmd, func(ctx context.Context, s service) error {
				page, err := s.Hooks(ctx, f)
				if err != nil {
					return err
				}
				return c.printHooks(page)
			})
		},
	}
	cmd.Flags().StringVar(&f.Workflow, "workflow", "", "hooks of runs of this workflow, if no run is named")
	cmd.Flags().StringArrayVar(&tags, "tag", nil, "hooks of runs with this tag, as name=value, if no run is named; may be repeated to require all")
	cmd.Flags().StringVar(&f.Cursor, "cursor", "", "continue after the page that printed this cursor")
	cmd.Flags().IntVar(&f.Limit, "limit", 0, "maximum number of runs to read, up to 100; 0: 20")
	_ = cmd.RegisterFlagCompletionFunc("workflow", c.workflows)
	cmd.AddCommand(c.resumeHook())
	return cmd
}

func (c *command) printHooks(page admin.HookPage) error {
	if c.output == "json" {
		return c.print(page)
	}
	printed, err := printEach(c, page.Hooks, func(h *admin.Hook) string { return h.Token })
	if err != nil {
		return err
	}
	if !printed {
		if err := printTable(c, admin.HookColumns, page.Hooks); err != nil {
			return err
		}
	}
	if page.Cursor != "" && c.output != "jsonl" {
		fmt.Fprintf(c.Stderr, "possibly more results: --cursor %s\n", page.Cursor)
	}
	return nil
}

func (c *command) resumeHook() *cobra.Command {
	var m admin.Message
	var input string
	cmd := &cobra.Command{
		Use: "resume TOKEN", Short: "Send a payload to the run that opened a hook", Args: cobra.ExactArgs(1), ValidArgsFunction: c.hookTokens,
		Example: "  flowctl hooks resume order-17/paid -i '{\"cents\":1200}'",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if m.Payload, err = c.payload(input); err != nil {
				return err
			}
			return c.do(cmd, func(ctx context.Context, s service) error {
				got, err := s.ResumeHook(ctx, args[0], m)
				if err != nil || !c.jsonOut() {
					return err
				}
				return c.print(got)
			})
		},
	}
	cmd.Flags().StringVarP(&input, "input", "i", "null", "payload: JSON, @FILE, or - for standard input")
	cmd.Flags().StringVar(&m.Key, "key", "", "idempotency key: payloads with the same key are delivered once")
	c.why(cmd, &m.Reason)
	return cmd
}

// hookTokens completes tokens of open hooks.
func (c *command) hookTokens(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.complete(cmd, func(ctx context.Context, s service) (all []string) {
		page, _ := s.Hooks(ctx, admin.HookFilter{})
		for i := range page.Hooks {
			if token := page.Hooks[i].Token; token != "" && token == clean(token) {
				all = append(all, token)
			}
		}
		return all
	})
}
