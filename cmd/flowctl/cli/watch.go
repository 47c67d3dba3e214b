package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// watchPause is the least time between two looks at a list.
const watchPause = time.Second

// watch prints a page of runs, and from then on each run of it that is new or has changed, the oldest first, until
// the context ends. It waits for the end of an outage, and says so.
func (c *command) watch(ctx context.Context, s service, f admin.Filter) error {
	if c.output == "json" {
		return &admin.InputError{What: "--watch has no end, and so no JSON as a whole", Fix: "use -o jsonl: a run on each line"}
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
			fmt.Fprintln(c.Stderr, "no answer, trying again: "+clean(problemText(err)))
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

// changedRuns returns the runs of a page that are not as they were known, and what is known of the page now.
func changedRuns(page []admin.Run, known map[string]string) (changed []admin.Run, now map[string]string) {
	now = make(map[string]string, len(page))
	for i := range page {
		b, _ := json.Marshal(&page[i]) // it was read from JSON, or can be written as such
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
