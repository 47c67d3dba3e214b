package cli

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/workflow"
)

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
