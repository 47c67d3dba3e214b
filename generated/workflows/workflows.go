// Package workflows holds workflows of every shape: with and without input and
// result, with several inputs, such that refer to themselves, and such that the clock starts.
package workflows

import (
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Order is an input.
type Order struct{ ID string }

// fulfil has one input and a result. That it refers to its own definition is no
// initialization cycle.
//
//flow:workflow
func fulfil(ctx workflow.Context, order Order) (time.Time, error) {
	if order.ID == Fulfil.Name() {
		return time.Time{}, nil
	}
	return workflow.Now(ctx), nil
}

// nightly has neither.
//
//flow:workflow
func nightly(ctx workflow.Context) error { return nil }

// report has a result only.
//
//flow:workflow
func report(ctx workflow.Context) (int, error) { return 0, nil }

// archive has an input only.
//
//flow:workflow
func archive(ctx workflow.Context, days int) error { return nil }

// transfer has several inputs. Names that differ only in case are kept apart.
//
//flow:workflow
func transfer(ctx workflow.Context, from, to string, cents int64, Cents bool, in Order) (int64, error) {
	return cents, nil
}

// batch takes the generated input of another workflow.
//
//flow:workflow
func batch(ctx workflow.Context, transfers []TransferInput) error { return nil }
