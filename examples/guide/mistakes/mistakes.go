// Package mistakes contains invalid workflow code. The tests show the consequences.
package mistakes

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// work is an ordinary step without a mistake.
//
//flow:step
func work(ctx context.Context, what string) error {
	slog.DebugContext(ctx, "working", "on", what)
	return nil
}

// Weekday simulates a value that may differ between an execution and its replay. Examples are the
// clock, an environment variable, a flag, and the order of a map.
var Weekday = time.Monday

// asks branches on a value that the log does not contain.
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

// borrows calls a step in a branch with the context of the workflow instead of the context of the
// branch.
//
//flow:workflow
func borrows(ctx workflow.Context) error {
	_, err := workflow.GoErr(ctx, func(workflow.Context) error { return Work(ctx, "borrowed") }).Get(ctx) //flow:ignore branch the mistake is what this shows
	return err
}

// hides calls a step inside Record.
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

// Gate simulates an object that blocks a goroutine, such as a lock or a channel.
var Gate chan struct{}

// blocks waits for an event that is not recorded in the log.
//
//flow:workflow
func blocks(ctx workflow.Context) error {
	<-Gate //flow:ignore channel the mistake is what this shows
	return Work(ctx, "late")
}
