package nightly

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Run closes the books of a night, stops the worker for three nights, and starts another one.
func Run(ctx context.Context, client *workflow.Client, out io.Writer) (err error) {
	if err := Declare(ctx, client, "every 1s"); err != nil {
		return err
	}
	closed := make(chan time.Time, 100)
	books := &Books{Close: func(_ context.Context, night time.Time) error { closed <- night; return nil }}

	stop := Work(ctx, client, books)
	last, err := first(ctx, closed)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	up, err := first(ctx, time.After(3*time.Second))
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintln(out, "the worker was down for 3 nights")
	stop = Work(ctx, client, books)
	defer func() { err = errors.Join(err, stop()) }()
	for last.Before(up.Add(-time.Second)) {
		next, err := first(ctx, closed)
		if err != nil {
			return err
		}
		if next.Sub(last) != time.Second {
			return fmt.Errorf("the books of %v are closed after those of %v", next, last)
		}
		last = next
	}
	_, _ = fmt.Fprintln(out, "they are closed, in order, none twice")
	return ops.New(client).Schedules().Delete(ctx, "nightly") // Without the deletion, the schedule would continue forever.
}

// first returns the first time that it receives from c.
func first(ctx context.Context, c <-chan time.Time) (time.Time, error) {
	select {
	case t := <-c:
		return t, nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}
