package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowgen/flowgen/admin"
)

// filterFlags contains the flags that select runs.
type filterFlags struct {
	admin.Filter
	tags         []string
	since, until string
}

func (f *filterFlags) add(c *command, cmd *cobra.Command) {
	f.addFixed(c, cmd)
	flags := cmd.Flags()
	flags.StringSliceVar(&f.Statuses, "status", nil, "runs with one of these statuses")
	flags.StringVar(&f.since, "since", "", "runs created at or after this time, such as 2026-11-24T08:00:00Z, or this long ago, such as 24h")
	flags.StringVar(&f.until, "until", "", "runs created before this time")
	flags.StringVar(&f.Group, "group", "", "runs of this group of failures: see flowctl failures")
	flags.BoolVar(&f.Failing, "failing", false, "runs that failed, are blocked, or are retrying a step")
	flags.IntVar(&f.Budget, "budget", 0, "maximum number of runs to search; 0: 20,000")
	_ = cmd.RegisterFlagCompletionFunc("status", cobra.FixedCompletions(admin.Statuses(), cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("group", c.groups)
}

// addFixed adds the flags for properties of a run that never change.
func (f *filterFlags) addFixed(c *command, cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.Workflow, "workflow", "", "runs of the workflow with this stored name")
	flags.StringVar(&f.Queue, "queue", "", "runs of this queue")
	flags.StringVar(&f.WorkflowID, "id", "", "runs of this workflow id")
	flags.StringArrayVar(&f.tags, "tag", nil, "runs with this tag, as name=value; may be repeated to require all")
	flags.StringVar(&f.Parent, "parent", "", "runs that this run started")
	flags.StringVar(&f.Root, "root", "", "this run and all its descendants")
	flags.BoolVar(&f.Children, "children", false, "include runs that were started by other runs")
	flags.BoolVar(&f.System, "system", false, "include the runtime's own runs, such as those of schedules")
	_ = cmd.RegisterFlagCompletionFunc("workflow", c.names(func(n admin.Counted) string { return n.Workflow }))
	_ = cmd.RegisterFlagCompletionFunc("queue", c.names(func(n admin.Counted) string { return n.Queue }))
}

// filterNames lists the flags for common properties of runs.
var filterNames = []string{"status", "workflow", "queue", "id", "tag", "since", "until", "parent", "root", "group", "failing", "children", "system"}

// changed returns the name of the first flag in names that was given, or the empty string.
func changed(cmd *cobra.Command, names []string) string {
	for _, one := range names {
		if cmd.Flags().Changed(one) {
			return one
		}
	}
	return ""
}

// filter parses the flags and returns the filter.
func (f *filterFlags) filter() (admin.Filter, error) {
	got := f.Filter
	var err error
	if got.Tags, err = tagsOf(f.tags); err != nil {
		return got, err
	}
	if got.Since, err = moment("--since", f.since); err != nil {
		return got, err
	}
	got.Until, err = moment("--until", f.until)
	return got, err
}

// moment parses the time in a flag. For the empty string it returns the zero time.
func moment(flag, s string) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	return admin.ParseTime(flag, s, time.Now())
}

func (c *command) runs() *cobra.Command {
	var f filterFlags
	var all, watch bool
	var view string
	cmd := &cobra.Command{
		Use: "runs", Short: "List runs, newest first", Args: cobra.NoArgs,
		Example: "  flowctl runs --status failed --workflow orders.fulfil --since 24h\n  flowctl runs --all -o jsonl >runs.jsonl",
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := f.filter()
			if err != nil {
				return err
			}
			if all && watch {
				return &admin.InputError{What: "--all and --watch are given", Fix: "give one of them: --watch shows one page, of up to --limit runs"}
			}
			s, ctx, cancel, err := c.service(cmd.Context(), all || watch)
			defer cancel()
			if err != nil {
				return err
			}
			if view != "" {
				if other := changed(cmd, filterNames); other != "" {
					return &admin.InputError{What: "--view and --" + other + " are given", Fix: "give one of them: a view is a complete filter"}
				}
				if filter, err = c.ofView(ctx, s, view, filter); err != nil {
					return err
				}
			}
			if watch {
				return c.watch(ctx, s, filter)
			}
			return c.list(ctx, s, filter, all)
		},
	}
	f.add(c, cmd)
	cmd.Flags().IntVar(&f.Limit, "limit", 0, "maximum number of runs, up to 1,000; 0: 100")
	cmd.Flags().StringVar(&view, "view", "", "runs that match this shared view, instead of a filter: see flowctl views")
	_ = cmd.RegisterFlagCompletionFunc("view", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return c.viewNames(cmd, nil, typed)
	})
	cmd.Flags().StringVar(&f.Cursor, "cursor", "", "continue after the page that printed this cursor")
	cmd.Flags().BoolVar(&f.Oldest, "oldest", false, "list the oldest runs first")
	cmd.Flags().BoolVar(&all, "all", false, "all pages")
	cmd.Flags().BoolVar(&watch, "watch", false, "keep running, and print each run again when it changes")
	cmd.AddCommand(c.count())
	return cmd
}

// list prints one page or, if all is true, all pages.
func (c *command) list(ctx context.Context, s service, f admin.Filter, all bool) error {
	whole := admin.RunPage{Runs: []admin.Run{}}
	shown := columns(c, admin.RunColumns)
	var t *table
	for {
		page, err := s.Runs(ctx, f)
		if err != nil {
			return err
		}
		switch c.output {
		case "json":
			whole.Runs, whole.Looked = append(whole.Runs, page.Runs...), whole.Looked+page.Looked
			whole.Cursor, whole.Partial = page.Cursor, page.Partial
		case "jsonl", "name":
			if _, err := printEach(c, page.Runs, func(r *admin.Run) string { return r.ID }); err != nil {
				return err
			}
		default:
			if t == nil {
				t = newTable(c.Stdout, headOf(shown)...)
			}
			for i := range page.Runs {
				t.row(cellsOf(shown, &page.Runs[i], time.Now(), instant)...)
			}
		}
		if f.Cursor = page.Cursor; page.Cursor == "" || !all {
			return c.endList(t, whole, page)
		}
	}
}

// endList ends the table after the last page, and prints whether the list is complete.
func (c *command) endList(t *table, whole, last admin.RunPage) error {
	switch {
	case c.output == "json":
		return c.print(whole)
	case t != nil:
		if err := t.end(); err != nil {
			return err
		}
	}
	if last.Cursor != "" && c.output != "jsonl" {
		why := "there are more"
		if last.Partial {
			why = fmt.Sprintf("searched %d runs, possibly more results", last.Looked)
		}
		fmt.Fprintf(c.Stderr, "%s: --cursor %s, or --all\n", why, last.Cursor)
	}
	return nil
}

func (c *command) count() *cobra.Command {
	var f filterFlags
	var by string
	kinds := map[string]func(admin.Counted) string{
		"status":   func(n admin.Counted) string { return cmp.Or(n.Status, "not ended") },
		"workflow": func(n admin.Counted) string { return n.Workflow },
		"queue":    func(n admin.Counted) string { return n.Queue },
	}
	cmd := &cobra.Command{
		Use: "count", Short: "Count runs", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			of, ok := kinds[by]
			if !ok {
				return &admin.InputError{What: fmt.Sprintf("--by %q", by), Fix: "use status, workflow or queue"}
			}
			filter, err := f.filter()
			if err != nil {
				return err
			}
			return c.do(cmd, func(ctx context.Context, s service) error {
				counts, err := s.Count(ctx, filter)
				if err != nil {
					return err
				}
				if c.jsonOut() {
					return c.print(counts)
				}
				return c.printCounts(counts, strings.ToUpper(by), of)
			})
		},
	}
	f.add(c, cmd)
	cmd.Flags().StringVar(&by, "by", "status", "status, workflow or queue")
	_ = cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions([]string{"status", "workflow", "queue"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// printCounts prints a table of counts. A tilde marks a lower bound.
func (c *command) printCounts(counts admin.Counts, head string, of func(admin.Counted) string) error {
	sums := map[string]int{}
	for _, n := range counts.Counts {
		sums[of(n)] += n.Runs
	}
	mark := ""
	if !counts.Exact {
		mark = "~"
	}
	var keys []string
	for key := range sums {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b)) })
	t := newTable(c.Stdout, head, "RUNS")
	for _, key := range keys {
		t.row(key, fmt.Sprint(mark, sums[key]))
	}
	return t.end()
}

// completionTime is the time limit of completions in a shell. Tests change it.
var completionTime = 300 * time.Millisecond

// complete completes the words that words obtains from the service.
func (c *command) complete(cmd *cobra.Command, words func(ctx context.Context, s service) []string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	s, ctx, done, err := c.service(ctx, true)
	defer done()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return words(ctx, s), cobra.ShellCompDirectiveNoFileComp
}

// names completes values from the counts of the runs of the store. The function of returns the
// value of a count.
func (c *command) names(of func(admin.Counted) string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return c.complete(cmd, func(ctx context.Context, s service) (all []string) {
			counts, _ := s.Count(ctx, admin.Filter{Children: true})
			for _, n := range counts.Counts {
				all = append(all, of(n))
			}
			slices.Sort(all)
			return slices.Compact(all)
		})
	}
}

// ids completes the IDs of runs.
func (c *command) ids(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	return c.complete(cmd, func(ctx context.Context, s service) (all []string) {
		page, _ := s.Runs(ctx, admin.Filter{Children: true})
		for _, r := range page.Runs {
			all = append(all, r.ID+"\t"+r.Status+" "+clean(r.Workflow))
		}
		return all
	})
}

// watchPause is the minimum interval between two requests of a list.
const watchPause = time.Second

// watch prints a page of runs. Until the context ends, it then prints each new or changed run of
// the page, the oldest first. It reports outages of the store and continues after them.
func (c *command) watch(ctx context.Context, s service, f admin.Filter) error {
	if c.output == "json" {
		return &admin.InputError{What: "--watch does not end, so it cannot print one JSON document", Fix: "use -o jsonl, which prints one run per line"}
	}
	known, headed, failing := map[string]string{}, false, false
	for {
		page, err := s.Runs(ctx, f)
		switch {
		case err != nil && ctx.Err() != nil:
			return ctx.Err()
		case err != nil && (len(known) == 0 && !headed || admin.ProblemOf(err).Code != admin.CodeFailed):
			return err
		case err != nil && !failing:
			fmt.Fprintln(c.Stderr, "no response, retrying: "+clean(problemText(err)))
			failing = true
		case err == nil:
			failing = false
			changed, now := changedRuns(page.Runs, known)
			if err := c.printWatched(changed, !headed); err != nil {
				return err
			}
			known, headed = now, true
		}
		select {
		case <-time.After(watchPause):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// changedRuns returns the runs of a page that are not in the state in known, and the new state of
// all runs of the page.
func changedRuns(page []admin.Run, known map[string]string) (changed []admin.Run, now map[string]string) {
	now = make(map[string]string, len(page))
	for i := range page {
		b, _ := json.Marshal(&page[i]) // A run can always be encoded.
		now[page[i].ID] = string(b)
		if known[page[i].ID] != string(b) {
			changed = append(changed, page[i])
		}
	}
	slices.SortStableFunc(changed, func(a, b admin.Run) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return changed, now
}

func (c *command) printWatched(runs []admin.Run, first bool) error {
	printed, err := printEach(c, runs, func(r *admin.Run) string { return r.ID })
	if printed || err != nil || len(runs) == 0 && !first {
		return err
	}
	shown := columns(c, admin.RunColumns)
	var t *table
	if first {
		t = newTable(c.Stdout, headOf(shown)...)
	} else {
		t = continueTable(c.Stdout)
	}
	for i := range runs {
		t.row(cellsOf(shown, &runs[i], time.Now(), instant)...)
	}
	return t.end()
}
