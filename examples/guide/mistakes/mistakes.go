// Package mistakes contains invalid workflow code. The tests show the consequences.
package mistakes

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// work is an ordinary step.
//
//flow:step
func work(ctx context.Context, what string) error {
	slog.DebugContext(ctx, "working", "on", what)
	return nil
}

// Weekday represents anything that may change between an execution and its replay: the clock, an
// environment variable, a flag, the order of a map.
var Weekday = time.Monday

// asks branches on a value that is not in the log.
//
//flow:workflow
func asks(ctx workflow.Context) error {
	name := "plan"
	if Weekday == time.Friday {
		name = "party"
	}
	if err := Work(ctx, name); err != nil {
		return err
	}
	return workflow.Sleep(ctx, time.Hour)
}

// borrows uses the context of another branch.
//
//flow:workflow
func borrows(ctx workflow.Context) error {
	_, err := workflow.GoErr(ctx, func(workflow.Context) error { return Work(ctx, "borrowed") }).Get(ctx) //flow:ignore branch the mistake is what this shows
	return err
}

// hides waits inside Record.
//
//flow:workflow
func hides(ctx workflow.Context) (int, error) {
	return workflow.Record(ctx, func() (int, error) { return 1, Work(ctx, "hidden") }) //flow:ignore record the mistake is what this shows
}

// meets has two branches that wait for each other.
//
//flow:workflow
func meets(ctx workflow.Context) error {
	var his *workflow.Future[workflow.None]
	hers := workflow.GoErr(ctx, func(ctx workflow.Context) error {
		_, err := his.Get(ctx)
		return err
	})
	his = workflow.GoErr(ctx, func(ctx workflow.Context) error {
		_, err := hers.Get(ctx)
		return err
	})
	_, err := hers.Get(ctx)
	return err
}

// Gate represents anything that blocks a goroutine: a lock, a channel, a loop.
var Gate chan struct{}

// blocks waits for an event that is not durable.
//
//flow:workflow
func blocks(ctx workflow.Context) error {
	<-Gate //flow:ignore channel the mistake is what this shows
	return Work(ctx, "late")
}
