package cli

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/workflow"
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

// The limits of the flag --most. A server permits 100 streams per principal.
const (
	followedAtOnce = 50
	mostFollowed   = 90
)

// overlap is the maximum age of a new run relative to the newest known run. A new run may be older
// because the clocks of the processes that start runs differ.
const overlap = 10 * time.Second

// following contains the state of followAll.
type following struct {
	c      *command
	s      service
	events admin.EventFilter
	turns  chan struct{} // contains an element for each run that is followed at the moment
	out    chan followed
	all    sync.WaitGroup

	newest time.Time            // creation time of the newest known run
	known  map[string]time.Time // creation times of the known runs that may be listed again
	open   int                  // number of runs that are followed or wait for a slot
}

// followed is an event of a followed run, or its end.
type followed struct {
	run   string
	event admin.Event
	err   error
	ended bool // the run has no further updates
}

// followAll prints events of the runs that match a filter until the context ends. For a run that is
// open at the beginning it prints new events, and for a run that is created later it prints all
// events. It omits no event. If more runs match than can be followed at a time, a run waits for a
// slot. Its log is then read from the position at which followAll found the run.
func (c *command) followAll(ctx context.Context, s service, f admin.Filter, events admin.EventFilter, most int) error {
	ctx, cancel := context.WithCancel(ctx)
	w := &following{c: c, s: s, events: events, turns: make(chan struct{}, most), out: make(chan followed), known: map[string]time.Time{}}
	defer func() {
		cancel()
		go func() {
			w.all.Wait()
			close(w.out)
		}()
		for range w.out { // Wait until all goroutines have ended.
		}
	}()
	if err := w.begin(ctx, f); err != nil {
		return err
	}
	fmt.Fprintf(c.Stderr, "following %d runs, and runs that start later\n", w.open)
	for failing := false; ; {
		if err := w.print(ctx); err != nil {
			return err
		}
		f.Since = w.newest.Add(-overlap)
		fresh, err := w.list(ctx, f)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && admin.ProblemOf(err).Code != admin.CodeFailed:
			return err
		case err != nil && !failing:
			fmt.Fprintln(c.Stderr, "no response, retrying: "+clean(problemText(err)))
		}
		failing = err != nil
		for i := range fresh {
			w.follow(ctx, fresh[i].ID, 1)
		}
	}
}

// begin follows the open runs from the ends of their logs. It marks ended runs as known.
func (w *following) begin(ctx context.Context, f admin.Filter) error {
	last := f
	last.Limit = 1
	page, err := w.s.Runs(ctx, last)
	if err != nil {
		return err
	}
	if len(page.Runs) > 0 {
		w.newest = page.Runs[0].CreatedAt
	}
	recent, open := f, f
	recent.Since = w.newest.Add(-overlap)
	for _, status := range admin.Statuses() {
		if workflow.Status(status).Terminal() {
			recent.Statuses = append(recent.Statuses, status)
		} else {
			open.Statuses = append(open.Statuses, status)
		}
	}
	if _, err := w.list(ctx, recent); err != nil {
		return err
	}
	fresh, err := w.list(ctx, open)
	for i := range fresh {
		w.follow(ctx, fresh[i].ID, fresh[i].Events+1)
	}
	return err
}

// print prints updates for the duration of watchPause.
func (w *following) print(ctx context.Context) error {
	look := time.NewTimer(watchPause)
	defer look.Stop()
	for {
		select {
		case got := <-w.out:
			switch {
			case got.ended:
				w.open--
			case got.err != nil: // The run was deleted or its log is damaged. Continue with the other runs.
				fmt.Fprintf(w.c.Stderr, "%s: %s\n", got.run, clean(problemText(got.err)))
			default:
				if err := w.c.event(got.run, &got.event); err != nil {
					return err
				}
			}
		case <-look.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// list returns the runs that match a filter and are not known, in the order of their creation.
func (w *following) list(ctx context.Context, f admin.Filter) (fresh []admin.Run, err error) {
	for f.Limit = 1000; ; {
		page, err := w.s.Runs(ctx, f)
		if err != nil {
			return nil, err
		}
		for i := range page.Runs {
			if r := &page.Runs[i]; w.known[r.ID].IsZero() {
				fresh = append(fresh, *r)
			}
		}
		if f.Cursor = page.Cursor; f.Cursor == "" {
			break
		}
	}
	slices.SortStableFunc(fresh, func(a, b admin.Run) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for i := range fresh {
		w.known[fresh[i].ID] = fresh[i].CreatedAt
		if created := fresh[i].CreatedAt; created.After(w.newest) {
			w.newest = created
		}
	}
	for run, created := range w.known {
		if created.Before(w.newest.Add(-overlap)) {
			delete(w.known, run) // The list does not contain the run again.
		}
	}
	return fresh, nil
}

// follow follows a run from the event with number from as soon as a slot is available.
func (w *following) follow(ctx context.Context, run string, from uint64) {
	if w.open++; w.open == cap(w.turns)+1 {
		fmt.Fprintf(w.c.Stderr, "more than %d runs match: the others are queued; narrow the filter, or raise --most\n", cap(w.turns))
	}
	events := w.events
	events.From = from
	send := func(got followed) bool {
		got.run = run
		select {
		case w.out <- got:
			return true
		case <-ctx.Done():
			return false
		}
	}
	w.all.Go(func() {
		select {
		case w.turns <- struct{}{}:
			defer func() { <-w.turns }()
		case <-ctx.Done():
			return
		}
		for e, err := range w.s.Follow(ctx, run, events) {
			if !send(followed{event: e, err: err}) {
				return
			}
		}
		send(followed{ended: true})
	})
}
