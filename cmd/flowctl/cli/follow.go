package cli

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

func (c *command) follow() *cobra.Command {
	var e admin.EventFilter
	var f filterFlags
	var all bool
	most := followedAtOnce
	cmd := &cobra.Command{
		Use: "follow RUN | FILTER", Short: "Print the events of runs as they occur", Args: cobra.MaximumNArgs(1), ValidArgsFunction: c.ids,
		Long: "Print the events of a run as they occur, until the run ends.\n\nWith a filter, follow all matching runs: print the new events of open runs and all events of runs that start\n" +
			"later, each prefixed with its run. After ContinueAsNew, follow the new run. The command does not end by itself and survives server outages.",
		Example: "  flowctl follow id:order-17 --type step_failed --type step_retrying\n  flowctl follow id:order-17 --key fulfil/go#2 --from 120\n  flowctl follow --workflow orders.fulfil --type step_failed -o jsonl",
		RunE: func(cmd *cobra.Command, args []string) error {
			filter, err := f.filter()
			if err != nil {
				return err
			}
			given := all || !reflect.ValueOf(filter).IsZero()
			switch {
			case len(args) == 0 && !given:
				return &admin.InputError{What: "follow: no run is given", Fix: "name a run, or give a filter such as --workflow, or --all"}
			case len(args) > 0 && given:
				return &admin.InputError{What: "a run is named, and a filter is given", Fix: "name a run, or give a filter"}
			case len(args) == 0 && cmd.Flags().Changed("from"):
				return &admin.InputError{What: "--from applies only to the events of one run", Fix: "name a run, or omit --from"}
			case most < 1 || most > mostFollowed:
				return &admin.InputError{What: fmt.Sprintf("--most %d", most), Fix: fmt.Sprintf("give 1 to %d", mostFollowed)}
			}
			if err := e.Check(); err != nil {
				return err
			}
			s, ctx, cancel, err := c.service(cmd.Context(), true)
			defer cancel()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return c.followAll(ctx, s, filter, e, most)
			}
			for got, err := range s.Follow(ctx, args[0], e) {
				if err != nil {
					return err
				}
				if err := c.event("", &got); err != nil {
					return err
				}
			}
			return ctx.Err()
		},
	}
	cmd.Flags().Uint64Var(&e.From, "from", 1, "number of the first event")
	cmd.Flags().BoolVar(&all, "all", false, "all runs")
	cmd.Flags().IntVar(&most, "most", most, "maximum number of runs of a filter that are followed at a time; the others are queued")
	f.addFixed(c, cmd)
	addEventFlags(cmd, &e)
	return cmd
}

// addEventFlags adds the flags of an event filter.
func addEventFlags(cmd *cobra.Command, f *admin.EventFilter) {
	cmd.Flags().StringSliceVar(&f.Types, "type", nil, "events of one of these types, such as step_completed")
	cmd.Flags().StringVar(&f.Name, "name", "", "events of the step, topic or other entity with this name")
	cmd.Flags().StringVar(&f.Key, "key", "", "events with this key or a key below it, such as fulfil/go#2")
	cmd.Flags().StringVar(&f.Entity, "entity", "", "events of this entity: see flowctl show --entities")
	_ = cmd.RegisterFlagCompletionFunc("type", cobra.FixedCompletions(admin.EventTypes(), cobra.ShellCompDirectiveNoFileComp))
}

// runEvent is the JSON output for an event of one of several runs.
type runEvent struct {
	Run string `json:"run"`
	*admin.Event
}

// event prints an event. It also prints the run unless run is empty.
func (c *command) event(run string, e *admin.Event) error {
	if c.hidden() {
		e.Payload, e.Attributes = nil, admin.KnownAttributes(e.Attributes)
	}
	switch {
	case !c.jsonOut():
		c.line(run, e)
		return nil
	case run != "":
		return c.oneLine(runEvent{run, e})
	}
	return c.oneLine(e)
}

// oneLine prints a value as JSON on one line, independently of the output format. A followed list
// never ends, so it cannot be a JSON array.
func (c *command) oneLine(v any) error {
	form := c.output
	c.output = "jsonl"
	defer func() { c.output = form }()
	return c.print(v)
}

// line prints an event as text. It also prints the run unless run is empty.
func (c *command) line(run string, e *admin.Event) {
	var parts []string
	if run != "" {
		parts = append(parts, run)
	}
	parts = append(parts, fmt.Sprintf("#%d", e.Seq), e.Time.Format("2006-01-02T15:04:05.000Z07:00"), e.Type)
	add := func(s string) {
		if s != "" {
			parts = append(parts, s)
		}
	}
	for _, f := range admin.EventFields {
		if f.Name == "reason" && e.Failure != nil {
			add(e.Failure.Message)
		}
		if starts := e.Type == "run_started" || e.Type == "step_started"; f.Line != nil && !(f.Name == "by" && starts) { // The worker is printed only for these two types of events.
			add(f.Line(e, instant))
		}
	}
	add(string(e.Payload))
	fmt.Fprintln(c.Stdout, clean(strings.Join(parts, " ")))
}
