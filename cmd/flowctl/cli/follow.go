package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

func (c *command) follow() *cobra.Command {
	var f admin.EventFilter
	cmd := &cobra.Command{
		Use: "follow RUN", Short: "Print the events of a run as they come, until it has ended", Args: cobra.ExactArgs(1), ValidArgsFunction: c.ids,
		Example: "  flowctl follow id:order-17 --type step_failed --type step_retrying\n  flowctl follow id:order-17 --key fulfil/go#2 --from 120",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, ctx, cancel, err := c.service(cmd.Context(), true)
			defer cancel()
			if err != nil {
				return err
			}
			for e, err := range s.Follow(ctx, args[0], f) {
				if err != nil {
					return err
				}
				if err := c.event(&e); err != nil {
					return err
				}
			}
			return ctx.Err()
		},
	}
	cmd.Flags().Uint64Var(&f.From, "from", 1, "the event to begin with")
	addEventFlags(cmd, &f)
	return cmd
}

// addEventFlags adds the flags that select events.
func addEventFlags(cmd *cobra.Command, f *admin.EventFilter) {
	cmd.Flags().StringSliceVar(&f.Types, "type", nil, "events of one of these types, as step_completed")
	cmd.Flags().StringVar(&f.Name, "name", "", "events about what is called so, such as a step or a topic")
	cmd.Flags().StringVar(&f.Key, "key", "", "events about what has this key, or one below it, as fulfil/go#2")
	cmd.Flags().StringVar(&f.Entity, "entity", "", "events about this entity: see flowctl show --entities")
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(admin.EventTypes(), cobra.ShellCompDirectiveNoFileComp))
}

// event prints an event that was followed.
func (c *command) event(e *admin.Event) error {
	if c.hidden() {
		e.Payload = nil
	}
	if c.jsonOut() {
		return c.oneLine(e)
	}
	c.line(e)
	return nil
}

// oneLine prints something that comes as JSON on a line of its own, whatever the output: there is no whole.
func (c *command) oneLine(v any) error {
	form := c.output
	c.output = "jsonl"
	defer func() { c.output = form }()
	return c.print(v)
}

// line prints an event.
func (c *command) line(e *admin.Event) {
	parts := []string{fmt.Sprintf("#%d", e.Seq), e.Time.Format("2006-01-02T15:04:05.000Z07:00"), e.Type}
	add := func(s string) {
		if s != "" {
			parts = append(parts, s)
		}
	}
	add(e.Name)
	add(e.Key)
	if e.Attempt > 1 {
		add(fmt.Sprint("attempt ", e.Attempt))
	}
	if e.Failure != nil {
		add(e.Failure.Message)
	}
	add(e.Reason)
	if !e.Due.IsZero() {
		add("due " + instant(e.Due))
	}
	add(string(e.Payload))
	fmt.Fprintln(c.Stdout, clean(strings.Join(parts, " ")))
}
