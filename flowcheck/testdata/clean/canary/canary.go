// Package canary rolls a release out in stages, and back if it is bad.
package canary

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step timeout=10m
func deploy(ctx context.Context, release string, percent int) error { return ctx.Err() }

//flow:step
func errorRate(ctx context.Context, release string) (float64, error) { return 0, ctx.Err() }

// Abort stops a roll-out.
var Abort = workflow.NewTopic[string]("abort")

// healthy asks once a minute for ten minutes.
func healthy(ctx workflow.Context, release string) (bool, error) {
	for range 10 {
		abort, next := Abort.Case(), workflow.After(time.Minute)
		won, err := workflow.Select(ctx, abort, next)
		if err != nil || won == abort {
			return false, err
		}
		rate, err := ErrorRate(ctx, release)
		if err != nil || rate > 0.01 {
			return false, err
		}
	}
	return true, nil
}

// roll goes back to the old release if a stage is bad.
//
//flow:workflow
func roll(ctx workflow.Context, from, to string) (string, error) {
	for _, percent := range []int{1, 10, 50, 100} {
		if err := Deploy(ctx, to, percent); err != nil {
			return from, errors.Join(err, Deploy(workflow.Detached(ctx), from, 100))
		}
		good, err := healthy(ctx, to)
		if err != nil || !good {
			return from, errors.Join(err, Deploy(workflow.Detached(ctx), from, 100))
		}
	}
	return to, nil
}
