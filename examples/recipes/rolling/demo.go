package rolling

import (
	"context"
	"errors"
	"fmt"
	"io"

	after "github.com/flowgen/flowgen/examples/recipes/rolling/orders"
	before "github.com/flowgen/flowgen/examples/recipes/rolling/testdata/release1"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Run deploys the new release while an order is in progress.
func Run(ctx context.Context, client *workflow.Client, out io.Writer) error {
	work := func(release int) (stop func() error) {
		ctx, cancel := context.WithCancel(ctx)
		worked := make(chan error, 1)
		go func() { worked <- Work(ctx, client, release) }()
		return func() error { cancel(); return <-worked }
	}
	start := func(id string) (*workflow.Run[string], error) {
		run, err := before.Fulfil.Start(ctx, client, id)
		if err == nil {
			err = AwaitPacking(ctx, run)
		}
		return run, err
	}

	stopOld := work(1)
	first, err := start("order 1")
	stopNew := work(2) // Start the new worker first, so that there is always a worker.
	if err := errors.Join(err, stopOld()); err != nil {
		return errors.Join(err, stopNew())
	}
	second, err := start("order 2")
	if err == nil {
		err = finish(ctx, out, first, second)
	}
	return errors.Join(err, stopNew())
}

// finish sends a message to each run that its order is packed, and prints the results.
func finish(ctx context.Context, out io.Writer, runs ...*workflow.Run[string]) error {
	for _, run := range runs {
		if err := after.Packed.Send(ctx, run, workflow.None{}); err != nil {
			return err
		}
		result, err := run.Result(ctx)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintln(out, result)
	}
	return nil
}
