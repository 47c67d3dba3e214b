package control

import (
	"context"
	"errors"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Watch starts a run so that watcher receives every event of the run, including the first.
func Watch(ctx context.Context, client *workflow.Client, trip Trip, watcher func(*workflow.Run[[]string]) error) error {
	run, err := Travel.Start(ctx, client, trip, workflow.WithHold())
	if err != nil {
		return err
	}
	if err := watcher(run); err != nil { // The watcher subscribes to the events.
		return err
	}
	return run.Release(ctx)
}

// Trace executes a run one operation at a time for as long as next returns true.
func Trace(ctx context.Context, client *workflow.Client, trip Trip, next func() bool) (*workflow.Run[[]string], error) {
	run, err := Travel.Start(ctx, client, trip, workflow.WithDebug())
	if err != nil {
		return nil, err
	}
	for next() {
		if err := run.Step(ctx); err != nil {
			return nil, err
		}
	}
	err = run.Resume(ctx) // The remaining operations are executed without stops.
	return run, err
}

// GoOn continues the work of a run that has ended without completing.
func GoOn(ctx context.Context, run *workflow.Run[[]string]) (*workflow.Run[[]string], error) {
	info, err := run.Info(ctx)
	if err != nil {
		return nil, err
	}
	again := run.Retry
	if info.Status == workflow.StatusCanceled {
		again = run.RetryCanceled
	}
	next, err := again(ctx)
	if refused, ok := errors.AsType[*workflow.StatusError](err); ok && len(refused.Undone) > 0 {
		return run.Restart(ctx) // The effects of the run were undone, so there is nothing to continue.
	}
	return next, err
}

// FromLastStep repeats the last step of a run in a new run, and continues from there.
func FromLastStep(ctx context.Context, run *workflow.Run[[]string]) (*workflow.Run[[]string], error) {
	last := ""
	for e, err := range run.Events(ctx, workflow.Types(event.StepCreated)) {
		if err != nil {
			return nil, err
		}
		last = e.Key
	}
	return run.Fork(ctx, last)
}
