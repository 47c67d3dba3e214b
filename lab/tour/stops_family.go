package main

import (
	"errors"
	"fmt"
	"sync"

	"github.com/flowgen/flowgen/lab/tour/flows"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// children checks the operations on child runs. It awaits some children, cancels and abandons
// others, and starts more children than are permitted.
func children(t *tour) (string, error) {
	numbers := []int{2, 4, 5, 6, 7, 8}
	sum, err := flows.Halves.Execute(t.ctx, t.client, numbers)
	if err := errors.Join(err, expect("halves", sum, "10, and 2 failed")); err != nil {
		return "", err
	}
	limit, err := flows.Crowd.Execute(t.ctx, t.client, 5)
	if err := errors.Join(err, expect("limit of children", limit, 3)); err != nil {
		return "", err
	}
	name := t.id("family")
	run, err := flows.Leave.Start(t.ctx, t.client, name)
	if err != nil {
		return "", err
	}
	waited := flows.WaitForCue.GetByID(t.client, name+"-wait")
	err = t.eventually("the last child is there", func() (bool, error) {
		_, err := waited.Info(t.ctx)
		if errors.Is(err, workflow.ErrRunNotFound) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return "", err
	}
	if err := flows.Cue.Send(t.ctx, waited, "go"); err != nil {
		return "", err
	}
	left, err := run.Result(t.ctx)
	if err := errors.Join(err, expect("parent", left, "left")); err != nil {
		return "", err
	}
	if _, err := flows.WaitForCue.GetByID(t.client, name+"-cancel").Result(t.ctx); !errors.Is(err, workflow.ErrCanceled) {
		return "", fmt.Errorf("the child that ends with its parent: %w", err)
	}
	abandoned := flows.WaitForCue.GetByID(t.client, name+"-abandon")
	if err := flows.Cue.Send(t.ctx, abandoned, "alone"); err != nil {
		return "", err
	}
	alone, err := abandoned.Result(t.ctx)
	if err := errors.Join(err, expect("the abandoned child", alone, "abandon: alone")); err != nil {
		return "", err
	}
	tree, err := ops.New(t.client).Tree(t.ctx, run.ID())
	return "all settled although two failed; one canceled by its parent, one with it, one abandoned, one waited for; a limit of 3 held",
		errors.Join(err, expect("children in the tree", len(tree.Children), 4))
}

// continuations sends numbers to a run that continues as a new run after every 100 numbers.
func continuations(t *tour) (string, error) {
	const senders, each = 4, 100
	run, err := flows.Count.Start(t.ctx, t.client, flows.Tally{Want: t.messages, Each: each}, workflow.WithID(t.id("count")))
	if err != nil {
		return "", err
	}
	var all sync.WaitGroup
	errs := make([]error, senders)
	for s := range senders {
		all.Go(func() {
			to := flows.Count.GetByID(t.client, t.id("count"))
			for n := s; n < t.messages && errs[s] == nil; n += senders {
				errs[s] = flows.Numbers.Send(t.ctx, to, n, workflow.IdempotencyKey(fmt.Sprint(n)))
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	got, err := run.Result(t.ctx)
	if err != nil {
		return "", err
	}
	want := flows.Tally{Sum: t.messages * (t.messages - 1) / 2, Count: t.messages, Turns: t.messages / each, Want: t.messages, Each: each}
	return fmt.Sprintf("%d messages, %d continuations, sum right", got.Count, got.Turns), expect("tally", got, want)
}

// compensations starts a journey that fails, and checks that its bookings are canceled in reverse
// order.
func compensations(t *tour) (string, error) {
	book := t.id("journey")
	_, err := flows.Travel.Execute(t.ctx, t.client, book)
	failed, ok := errors.AsType[*workflow.RunError](err)
	if !ok || !errors.Is(err, flows.ErrNotYet) {
		return "", fmt.Errorf("the journey: %w", err)
	}
	lines, err := t.book(book)
	want := []string{"book hotel", "book flight", "book car", "cancel car", "cancel flight", "cancel hotel"}
	return fmt.Sprintf("%d of 3 undone, in reverse order, each once; none was not undone", len(failed.Undone)),
		errors.Join(err, expect("book", lines, want), expect("undone", len(failed.Undone), 3), expect("not undone", len(failed.NotUndone), 0))
}
