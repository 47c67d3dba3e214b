package main

import (
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/lab/tour/flows"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// resumed cancels a play and continues it in a new run.
func resumed(t *tour) (string, error) {
	run, err := t.atCue("resumed", workflow.WithID(t.id("resumed")))
	if err != nil {
		return "", err
	}
	if err := run.Cancel(t.ctx, "by mistake"); err != nil {
		return "", err
	}
	if _, err := run.Result(t.ctx); !errors.Is(err, workflow.ErrCanceled) {
		return "", fmt.Errorf("a canceled play: %w", err)
	}
	again, err := run.RetryCanceled(t.ctx)
	if err != nil {
		return "", err
	}
	if err := t.ends(again); err != nil {
		return "", err
	}
	info, err := run.Info(t.ctx)
	lines, read := t.book(t.id("resumed"))
	return "a cancelled run stayed cancelled; a new one went on, and executed nothing again",
		errors.Join(err, read, expect("the old run", info.Status, workflow.StatusCanceled), expect("book", lines, []string{"act 0", "sweep the stage", "act 1"}))
}

// forked creates a fork of a run, restarts a run, and retries a run.
func forked(t *tour) (string, error) {
	run, err := t.atCue("forked")
	if err == nil {
		err = t.ends(run)
	}
	if err != nil {
		return "", err
	}
	fork, err := run.Fork(t.ctx, "perform/tour.note#2")
	if err != nil {
		return "", err
	}
	got, err := fork.Result(t.ctx) // The fork keeps the message of the original run.
	if err := errors.Join(err, expect("the fork", got, acts)); err != nil {
		return "", err
	}
	again, err := run.Restart(t.ctx)
	if err == nil {
		err = t.ends(again)
	}
	if err != nil {
		return "", err
	}
	lines, err := t.book(t.id("forked"))
	if err := errors.Join(err, expect("acts of three runs", len(lines), 2+1+2)); err != nil {
		return "", err
	}
	return "forked at a step with what was before it, restarted from the beginning, tried again after a failure", t.retried()
}

// retried starts a workflow that fails, removes the cause of the failure, and retries the run.
func (t *tour) retried() error {
	book := t.id("shop")
	run, err := flows.OpenShop.Start(t.ctx, t.client, book)
	if err != nil {
		return err
	}
	if _, err := run.Result(t.ctx); !errors.Is(err, flows.ErrNotYet) {
		return fmt.Errorf("a shop without a permit: %w", err)
	}
	if _, err := t.bank.DB.ExecContext(t.ctx, `INSERT INTO notes (book, line, key) VALUES ($1, 'permit', $1)`, book); err != nil {
		return err
	}
	again, err := run.Retry(t.ctx)
	if err != nil {
		return err
	}
	got, err := again.Result(t.ctx)
	lines, read := t.book(book)
	return errors.Join(err, read, expect("the shop", got, "unlock, open"), expect("book", lines, []string{"unlock", "permit"}))
}
