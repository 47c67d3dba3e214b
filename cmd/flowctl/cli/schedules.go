package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

func (c *command) schedules() *cobra.Command {
	var f admin.ScheduleFilter
	cmd := &cobra.Command{
		Use: "schedules", Aliases: []string{"schedule"}, Short: "List and control schedules", Args: cobra.NoArgs,
		Long: "Schedules lists the schedules of the store. STARTED counts their runs, SKIPPED the ticks at which another run was\n" +
			"active or that a newer tick replaced, MISSED the ticks that no worker processed in time.",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.do(cmd, func(ctx context.Context, s service) error {
				page, err := s.Schedules(ctx, f)
				if err != nil {
					return err
				}
				return c.printSchedules(page)
			})
		},
	}
	list := &cobra.Command{Use: "list", Short: "List schedules", Args: cobra.NoArgs, RunE: cmd.RunE}
	for _, one := range []*cobra.Command{cmd, list} {
		one.Flags().IntVar(&f.Limit, "limit", 0, "maximum number of schedules, up to 1,000; 0: 100")
		one.Flags().StringVar(&f.Cursor, "cursor", "", "continue after the page that printed this cursor")
	}
	cmd.AddCommand(list, c.showSchedule(), c.createSchedule(), c.updateSchedule(), c.pauseSchedule(), c.backfillSchedule(), c.deleteSchedule(),
		c.scheduleAction("resume", "Resume a paused schedule, without the ticks that it missed"),
		c.scheduleAction("trigger", "Start a run of a schedule now and print its id"))
	return cmd
}

func (c *command) printSchedules(page admin.SchedulePage) error {
	if c.output == "json" {
		return c.print(page)
	}
	printed, err := printEach(c, page.Schedules, func(s *admin.Schedule) string { return s.Name })
	if err != nil {
		return err
	}
	if !printed {
		if err := printTable(c, admin.ScheduleColumns, page.Schedules); err != nil {
			return err
		}
	}
	if page.Cursor != "" && c.output != "jsonl" {
		fmt.Fprintf(c.Stderr, "more results: --cursor %s\n", page.Cursor)
	}
	return nil
}

func (c *command) showSchedule() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a schedule, its next ten ticks and its last runs", Args: cobra.ExactArgs(1), ValidArgsFunction: c.scheduleNames,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.do(cmd, func(ctx context.Context, s service) error {
				got, err := s.Schedule(ctx, args[0])
				switch {
				case err != nil:
					return err
				case c.jsonOut():
					return c.print(got)
				}
				return c.printSchedule(&got)
			})
		},
	}
}

func (c *command) printSchedule(s *admin.Schedule) error {
	t := newTable(c.Stdout, "schedule", s.Name)
	line := func(name, value string) {
		if value != "" {
			t.row(name, value)
		}
	}
	line("state", s.State())
	line("note", s.Note)
	line("problem", s.Problem)
	line("when", s.When)
	line("overlap", s.Overlap)
	line("catch-up", milliseconds(s.CatchUpMs))
	line("jitter", milliseconds(s.JitterMs))
	line("workflow", s.Workflow)
	line("queue", s.Queue)
	line("run", s.Run)
	line("runs started", fmt.Sprint(s.Started))
	line("ticks skipped", fmt.Sprint(s.Skipped))
	line("ticks missed", fmt.Sprint(s.Missed))
	for _, b := range s.Backfills {
		line("backfill", strings.TrimSpace(fmt.Sprintf("from %s until %s %s", instant(b.From), instant(b.To), b.Overlap)))
	}
	for _, at := range s.Ticks {
		line("next", instant(at))
	}
	if err := t.end(); err != nil || len(s.Recent) == 0 {
		return err
	}
	fmt.Fprintln(c.Stdout)
	t = newTable(c.Stdout, "TICK", "RUN", "SKIPPED")
	for _, r := range s.Recent {
		t.row(instant(r.Tick), r.Run, r.Skipped)
	}
	return t.end()
}

// milliseconds formats a duration. It returns the empty string for 0.
func milliseconds(ms int64) string {
	if ms == 0 {
		return ""
	}
	return (time.Duration(ms) * time.Millisecond).String()
}

// timing adds the flags of a timing. The function read returns their values.
func timing(cmd *cobra.Command) (read func() (admin.Timing, error)) {
	var t admin.Timing
	var catchUp, jitter time.Duration
	f := cmd.Flags()
	f.StringVar(&t.When, "when", "", `times at which to start runs, such as "30 2 * * * Europe/Zurich" or "every 10m"`)
	f.StringVar(&t.Overlap, "overlap", "", "handling of a tick while a run is active: "+strings.Join(admin.Overlaps(), ", ")+" (default skip)")
	f.DurationVar(&catchUp, "catch-up", 0, "maximum delay of a tick; 0: a year")
	f.DurationVar(&jitter, "jitter", 0, "delay each tick by a duration below this one")
	_ = cmd.RegisterFlagCompletionFunc("overlap", cobra.FixedCompletions(admin.Overlaps(), cobra.ShellCompDirectiveNoFileComp))
	return func() (admin.Timing, error) {
		if t.When == "" {
			return t, &admin.InputError{What: "no times are given", Fix: `give --when "30 2 * * * Europe/Zurich", or --when "every 10m"`}
		}
		t.CatchUpMs, t.JitterMs = catchUp.Milliseconds(), jitter.Milliseconds()
		return t, nil
	}
}

func (c *command) createSchedule() *cobra.Command {
	var n admin.NewSchedule
	var input string
	var tags []string
	cmd := &cobra.Command{
		Use: "create NAME WORKFLOW --when WHEN", Short: "Create or replace a schedule", Args: cobra.ExactArgs(2),
		Long: "Create creates or replaces a schedule. Each run gets the given input. As with flowctl start, the options in the directive of\n" +
			"the workflow do not apply to the runs.",
		Example: `  flowctl schedules create nightly reports.build --when "30 2 * * * Europe/Zurich" -i '{"all":true}'`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, to string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return c.scheduleNames(cmd, args, to)
			}
			return c.workflows(cmd, args[1:], to)
		},
	}
	read := timing(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		n.Name, n.Workflow = args[0], args[1]
		if n.Timing, err = read(); err != nil {
			return err
		}
		if n.Input, err = c.payload(input); err != nil {
			return err
		}
		if n.Tags, err = tagsOf(tags); err != nil {
			return err
		}
		return c.do(cmd, func(ctx context.Context, s service) error {
			done, err := s.PutSchedule(ctx, n)
			return c.acted(done, err)
		})
	}
	f := cmd.Flags()
	f.StringVarP(&input, "input", "i", "", "input: JSON, @FILE, or - for standard input")
	f.StringVar(&n.Queue, "queue", "", "queue of the runs")
	f.StringArrayVar(&tags, "tag", nil, "tag of the runs, as name=value; may be repeated")
	c.why(cmd, &n.Reason)
	return cmd
}

func (c *command) updateSchedule() *cobra.Command {
	cmd := c.scheduleAction("update", "Replace the times of a schedule, not what it starts")
	read := timing(cmd)
	cmd.Use = "update NAME --when WHEN"
	cmd.RunE = c.runSchedule(func() (admin.ScheduleAction, error) {
		t, err := read()
		return admin.ScheduleAction{Verb: "update", Timing: &t}, err
	})
	return cmd
}

func (c *command) pauseSchedule() *cobra.Command {
	cmd := c.scheduleAction("pause", "Pause a schedule: its ticks start no runs")
	cmd.Flags().Lookup("reason").Usage = "reason, which is shown with the schedule and recorded in the journal"
	return cmd
}

func (c *command) backfillSchedule() *cobra.Command {
	var fill admin.Backfill
	var from, to string
	cmd := c.scheduleAction("backfill", "Start runs for past ticks of a schedule")
	cmd.Use = "backfill NAME --from TIME --to TIME"
	cmd.Example = "  flowctl schedules backfill nightly --from 2026-11-01T00:00:00Z --to 2026-11-08T00:00:00Z"
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "start of the period, inclusive: a time such as 2026-11-24T08:00:00Z, or how long ago, such as 24h")
	f.StringVar(&to, "to", "0s", "end of the period, exclusive")
	f.StringVar(&fill.Overlap, "overlap", "", "overlap policy, instead of that of the schedule: "+strings.Join(admin.Overlaps(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("overlap", cobra.FixedCompletions(admin.Overlaps(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = c.runSchedule(func() (a admin.ScheduleAction, err error) {
		if from == "" {
			return a, &admin.InputError{What: "no period is given", Fix: "give --from TIME, and --to TIME unless the period ends now"}
		}
		if fill.From, err = moment("--from", from); err != nil {
			return a, err
		}
		if fill.To, err = moment("--to", to); err != nil {
			return a, err
		}
		return admin.ScheduleAction{Verb: "backfill", Fill: &fill}, nil
	})
	return cmd
}

func (c *command) deleteSchedule() *cobra.Command {
	cmd := c.scheduleAction("delete", "Delete a schedule; its runs continue")
	cmd.RunE = c.runSchedule(func() (admin.ScheduleAction, error) {
		return admin.ScheduleAction{Verb: "delete"}, c.sure(cmd.Context(), "delete", "Delete the schedule? The runs that it started continue.")
	})
	return cmd
}

// scheduleAction returns the command for an action that has no parameters.
func (c *command) scheduleAction(verb, about string) *cobra.Command {
	cmd := &cobra.Command{
		Use: verb + " NAME", Short: about, Args: cobra.ExactArgs(1), ValidArgsFunction: c.scheduleNames,
		RunE: c.runSchedule(func() (admin.ScheduleAction, error) { return admin.ScheduleAction{Verb: verb}, nil }),
	}
	cmd.Flags().String("reason", "", "reason, which is recorded in the journal")
	return cmd
}

func (c *command) runSchedule(read func() (admin.ScheduleAction, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		a, err := read()
		if err != nil {
			return err
		}
		if a.Reason, err = cmd.Flags().GetString("reason"); err != nil {
			return err
		}
		return c.do(cmd, func(ctx context.Context, s service) error {
			done, err := s.ActOnSchedule(ctx, args[0], a)
			return c.acted(done, err)
		})
	}
}

// acted prints the result of a request to a schedule.
func (c *command) acted(done admin.ScheduleActed, err error) error {
	switch {
	case err != nil:
		return err
	case c.jsonOut():
		return c.print(done)
	case done.Run != "":
		_, err = fmt.Fprintln(c.Stdout, done.Run)
	}
	return err
}

// scheduleNames completes the names of schedules.
func (c *command) scheduleNames(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return c.complete(cmd, func(ctx context.Context, s service) (all []string) {
		page, _ := s.Schedules(ctx, admin.ScheduleFilter{})
		for i := range page.Schedules {
			all = append(all, clean(page.Schedules[i].Name)+"\t"+clean(page.Schedules[i].When))
		}
		return all
	})
}
