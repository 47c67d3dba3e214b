// Package mistakes holds what workflow code must not do. The tests beside it
// show what happens then.
package mistakes

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// work is a step like any other.
//
//flow:step
func work(ctx context.Context, what string) error {
	slog.DebugContext(ctx, "working", "on", what)
	return nil
}

// Weekday stands for anything that changes between an execution and a replay:
// the clock, an environment variable, a flag, a map's order.
var Weekday = time.Monday

// asks decides by something that the log does not hold.
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

// hides waits inside of Record.
//
//flow:workflow
func hides(ctx workflow.Context) (int, error) {
	return workflow.Record(ctx, func() (int, error) { return 1, Work(ctx, "hidden") }) //flow:ignore record the mistake is what this shows
}

// meets lets two branches wait for each other.
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

// Gate stands for a lock, a channel, a loop: anything that keeps a goroutine.
var Gate chan struct{}

// blocks waits for something that is not durable.
//
//flow:workflow
func blocks(ctx workflow.Context) error {
	<-Gate //flow:ignore channel the mistake is what this shows
	return Work(ctx, "late")
}
