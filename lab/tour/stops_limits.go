package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/lab/tour/flows"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// pools runs steps that share saws and benches. It checks how many of these were in use at a time.
func pools(t *tour) (string, error) {
	const jobs = 12
	all, err := flows.Carpenter.Execute(t.ctx, t.client, jobs)
	if err := errors.Join(err, expect("jobs", len(all), jobs)); err != nil {
		return "", err
	}
	// The intervals of attempts whose workers were killed are unknown. All other attempts held
	// their permits until their results were recorded.
	saws, benches := 0, 0
	for _, one := range all {
		s, b := 0, 0
		for _, other := range all {
			if other.From <= one.From && one.From < other.To {
				s, b = s+other.Saws, b+other.Benches
			}
		}
		saws, benches = max(saws, s), max(benches, b)
	}
	if saws > 2 || benches > 3 {
		return "", fmt.Errorf("%d saws and %d benches were used at once, there are 2 and 3", saws, benches)
	}
	if err := t.eventually("all permits are given back", func() (bool, error) {
		infos, err := ops.New(t.client).Limits().List(t.ctx)
		return !slices.ContainsFunc(infos, func(i ops.LimitInfo) bool {
			return (i.Name == flows.Saws.Name() || i.Name == flows.Benches.Name()) && i.Held+i.Waits > 0
		}), err
	}); err != nil {
		return "", err
	}
	return fmt.Sprintf("of 2 saws and 3 benches, wanted in both orders by %d at once, never more were used", jobs), nil
}

// cued sends a run its cue and checks its result.
func (t *tour) cued(run *workflow.Run[string], cue string) error {
	if err := flows.Cue.Send(t.ctx, run, cue, workflow.IdempotencyKey(cue)); err != nil {
		return err
	}
	got, err := run.Result(t.ctx)
	return errors.Join(err, expect("the result", got, cue))
}

// customers starts two runs for one customer and one run for another customer. Each of them needs a
// counter.
func customers(t *tour) (string, error) {
	serve := func(customer string) (*workflow.Run[string], error) {
		return flows.Serve.Start(t.ctx, t.client, t.id(customer))
	}
	first, err := serve("ann")
	if err == nil {
		err = t.standsBy(first.Handle)
	}
	if err != nil {
		return "", err
	}
	second, err := serve("ann")
	if err != nil {
		return "", err
	}
	counter := flows.Counter.For(t.id("ann")).String()
	if err := t.eventually("the second run waits for its counter", func() (bool, error) {
		info, err := second.Info(t.ctx)
		return slices.Contains(info.Waits, counter), err
	}); err != nil {
		return "", err
	}
	other, err := serve("bob")
	if err == nil {
		err = t.cued(other, "bob is served")
	}
	if err != nil {
		return "", err
	}
	info, err := second.Info(t.ctx)
	if err := errors.Join(err, expect("the second run", info.Status, workflow.StatusPending)); err != nil {
		return "", err
	}
	if err := errors.Join(t.cued(first, "ann is served"), t.cued(second, "ann is served again")); err != nil {
		return "", err
	}
	return "the second run of a customer said that it waited for " + flows.Counter.All().Name() + ", while that of another one was served", nil
}

// refusals checks starts that are rejected instead of waiting, and a start that expires before its
// run begins.
func refusals(t *tour) (string, error) {
	sell := func() (*workflow.Run[string], error) { return flows.Sell.Start(t.ctx, t.client, t.id("window")) }
	first, err := sell()
	if err == nil {
		err = t.standsBy(first.Handle)
	}
	if err != nil {
		return "", err
	}
	_, err = sell()
	if _, ok := errors.AsType[*limit.StartRefusedError](err); !ok {
		return "", fmt.Errorf("a start at a window that is taken: got %w, want that it is refused", err)
	}
	if err := t.cued(first, "sold"); err != nil {
		return "", err
	}
	_, err = flows.Ring.Execute(t.ctx, t.client, "late", workflow.WithQueue(t.id("nobody")), workflow.WithStartBy(50*time.Millisecond))
	if late, ok := errors.AsType[*workflow.RunError](err); !ok || late.Code != "notstarted" {
		return "", fmt.Errorf("a run that nobody begins: got %w, want that it has failed with the code notstarted", err)
	}
	return "a start at a window that was taken was refused, and what nobody began in time failed", nil
}

// turns starts copies that wait for a press. It checks the order in which they are printed.
func turns(t *tour) (string, error) {
	start := func(reader string, rank int, waits bool) (*workflow.Run[int64], error) {
		return flows.Reprint.Start(t.ctx, t.client, flows.Copy{Press: t.id("press"), Reader: t.id(reader), Rank: rank, Waits: waits})
	}
	first, err := start("nobody", 0, true)
	if err == nil {
		err = t.standsBy(first.Handle)
	}
	if err != nil {
		return "", err
	}
	var waiting []*workflow.Run[int64]
	for _, c := range []struct {
		reader string
		rank   int
	}{{"ann", 0}, {"ann", 0}, {"ann", 0}, {"bob", 0}, {"ann", 5}} {
		run, err := start(c.reader, c.rank, false)
		if err != nil {
			return "", err
		}
		waiting = append(waiting, run)
	}
	if err := flows.Cue.Send(t.ctx, first, "print", workflow.IdempotencyKey("print")); err != nil {
		return "", err
	}
	printed, err := first.Result(t.ctx)
	if err != nil {
		return "", err
	}
	for _, next := range []int{4, 0, 3, 1, 2} { // The copy with the higher rank is printed first. After it, the readers alternate.
		at, err := waiting[next].Result(t.ctx)
		if err == nil && at <= printed {
			err = fmt.Errorf("copy %d was printed before its turn", next)
		}
		if err != nil {
			return "", err
		}
		printed = at
	}
	return "of one press the copy of a higher rank came first, then those of two readers in turn", nil
}

// collected checks starts that share a run.
func collected(t *tour) (string, error) {
	last := map[workflow.RunID]string{} // text of the last start that joined each run
	var pages []*workflow.Run[string]
	var letters []*workflow.Run[[]string]
	for n := range 6 {
		page := flows.Page{Name: t.id("page"), Text: fmt.Sprint(n)}
		run, err := flows.Typeset.Start(t.ctx, t.client, page)
		if err != nil {
			return "", err
		}
		pages, last[run.ID()] = append(pages, run), page.Text
		letter, err := flows.Bundle.Start(t.ctx, t.client, page)
		if err != nil {
			return "", err
		}
		letters = append(letters, letter)
	}
	for _, run := range pages {
		text, err := run.Result(t.ctx)
		if err := errors.Join(err, expect("the page", text, last[run.ID()])); err != nil {
			return "", err
		}
	}
	for n, run := range letters {
		texts, err := run.Result(t.ctx)
		if err := errors.Join(err, expect("the letters", fmt.Sprint(texts), []string{"[0 1 2]", "[3 4 5]"}[n/3])); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("6 letters were taken in 2 runs, and 6 changes of a page in %d", len(last)), nil
}

// singletons starts runs with a key that already has an active run, for each policy.
func singletons(t *tour) (string, error) {
	key := t.id("singleton")
	three := func(d workflow.Definition[string, string]) (runs [3]*workflow.Run[string], err error) {
		for i := range runs {
			if runs[i], err = d.Start(t.ctx, t.client, key); err != nil {
				return runs, err
			}
			if i == 0 {
				err = t.standsBy(runs[i].Handle)
			}
			if err != nil {
				return runs, err
			}
		}
		return runs, nil
	}
	guards, err := three(flows.Guard)
	if err != nil {
		return "", err
	}
	same := guards[0].ID() == guards[1].ID() && guards[0].ID() == guards[2].ID()
	if err := errors.Join(expect("later starts return the active run", same, true), t.cued(guards[0], "relieved")); err != nil {
		return "", err
	}
	deploys, err := three(flows.Deploy)
	if err == nil {
		err = errors.Join(t.canceled(deploys[0]), t.canceled(deploys[1]), t.cued(deploys[2], "deployed"))
	}
	if err != nil {
		return "", fmt.Errorf("replace: %w", err)
	}
	fetches, err := three(flows.Fetch)
	if err == nil {
		err = errors.Join(t.cued(fetches[0], "fetched"), t.canceled(fetches[1]), t.cued(fetches[2], "fetched again"))
	}
	if err != nil {
		return "", fmt.Errorf("latest: %w", err)
	}
	posts, err := three(flows.Post)
	for i := 0; i < len(posts) && err == nil; i++ {
		err = t.cued(posts[i], fmt.Sprint("posted ", i))
	}
	if err != nil {
		return "", fmt.Errorf("queue: %w", err)
	}
	return "of three starts of a key one ran, or the last, or the first and the last, or all in turn", nil
}

// canceled waits for the end of a run that another run has canceled.
func (t *tour) canceled(run *workflow.Run[string]) error {
	_, err := run.Result(t.ctx)
	if !errors.Is(err, workflow.ErrCanceled) {
		return fmt.Errorf("run %s: got %w, want that it was canceled", run.ID(), err)
	}
	return nil
}
