package main

import (
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/lab/tour/flows"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// elsewhere checks steps on other queues.
func elsewhere(t *tour) (string, error) {
	run, err := flows.Places.Start(t.ctx, t.client, "step")
	if err != nil {
		return "", err
	}
	got, err := run.Result(t.ctx)
	if err := errors.Join(err, expect("places", got, []string{"default step", "far step", "far step"})); err != nil {
		return "", err
	}
	chunks, attempts := 0, 0
	for c, err := range flows.Lines.Read(t.ctx, run) {
		if err != nil || c.Value != "far: step" {
			return "", fmt.Errorf("the stream of the caller has %q: %w", c.Value, err)
		}
		chunks++
		attempts = c.Attempt
	}
	if chunks == 0 || chunks > attempts {
		return "", fmt.Errorf("%d chunks of %d attempts", chunks, attempts)
	}
	return "one step by its directive and one by an option were executed by a worker of another queue; it wrote to the stream of the caller", nil
}

// deposits checks that each deposit is written to a SQL database exactly once.
func deposits(t *tour) (string, error) {
	const runs, parts = 10, 20
	account := t.id("account")
	var all []*workflow.Run[int64]
	for range runs {
		run, err := flows.Save.Start(t.ctx, t.client, flows.SaveInput{Account: account, Parts: parts})
		if err != nil {
			return "", err
		}
		all = append(all, run)
	}
	for _, run := range all {
		if _, err := run.Result(t.ctx); err != nil {
			return "", err
		}
	}
	var cents int
	err := t.bank.DB.QueryRowContext(t.ctx, `SELECT cents FROM accounts WHERE name = $1`, account).Scan(&cents)
	return fmt.Sprintf("%d transactions of steps, each exactly once", runs*parts), errors.Join(err, expect("balance", cents, runs*parts))
}

// versions checks that a run keeps its version over changes of its code.
func versions(t *tour) (string, error) {
	got, err := flows.Change.Execute(t.ctx, t.client, 3)
	return "a run kept the version of a change that it had met first, and took the newest of those that came later",
		errors.Join(err, expect("versions", got, []int{1, 1, 1, 2, 1, 3}))
}

// toils starts runs whose steps record their effects, and checks the order of the effects.
func toils(t *tour) (string, error) {
	const runs, steps = 20, 10
	book := func(i int) string { return t.id(fmt.Sprint("toil-", i)) }
	var all []*workflow.Run[int]
	for i := range runs {
		run, err := flows.Toil.Start(t.ctx, t.client, flows.ToilInput{Book: book(i), Steps: steps})
		if err != nil {
			return "", err
		}
		all = append(all, run)
	}
	var want []string
	for n := range steps {
		want = append(want, fmt.Sprint("step ", n))
	}
	for i, run := range all {
		if _, err := run.Result(t.ctx); err != nil {
			return "", err
		}
		lines, err := t.book(book(i))
		if err := errors.Join(err, expect("book", lines, want)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d runs of %d steps, all in order and each effect once", runs, 2*steps), nil
}
