// Package log has workflow code that writes logs by itself.
package log

import (
	"fmt"
	"log"
	"log/slog"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Worker has a logger.
type Worker struct{ logger *log.Logger }

// printed writes to standard output.
//
//flow:workflow
func printed(ctx workflow.Context, order shop.Order) error {
	fmt.Println("order", order.ID) // want `^fmt.Println writes again in every replay: use workflow.Logger, which is silent in replays \[log\]$`
	return shop.Notify(ctx, order.Customer, "thanks")
}

// formatted does so, too.
//
//flow:workflow
func formatted(ctx workflow.Context, order shop.Order) error {
	fmt.Printf("order %s\n", order.ID) // want `^fmt.Printf writes`
	return shop.Notify(ctx, order.Customer, "thanks")
}

// logged uses the old package.
//
//flow:workflow
func logged(ctx workflow.Context, order shop.Order) error {
	log.Printf("order %s", order.ID) // want `^log.Printf writes`
	return shop.Notify(ctx, order.Customer, "thanks")
}

// structured uses the new one.
//
//flow:workflow
func structured(ctx workflow.Context, order shop.Order) error {
	slog.Info("order", "id", order.ID) // want `^slog.Info writes`
	return shop.Notify(ctx, order.Customer, "thanks")
}

// own has a logger of its own.
func (w *Worker) own(ctx workflow.Context, order shop.Order) error {
	w.logger.Println("order", order.ID) // want `^log.Logger.Println writes`
	return shop.Notify(ctx, order.Customer, "thanks")
}

// standard takes that of the process.
//
//flow:workflow
func standard(ctx workflow.Context, order shop.Order) error {
	logger := slog.Default() // want `^slog.Default writes`
	logger.Info("order", "id", order.ID)
	return shop.Notify(ctx, order.Customer, "thanks")
}

// debugged was forgotten.
//
//flow:workflow
func debugged(ctx workflow.Context, order shop.Order) error {
	println("here", order.ID) // want `^println writes`
	return shop.Notify(ctx, order.Customer, "thanks")
}

// audited has a helper.
//
//flow:workflow
func audited(ctx workflow.Context, order shop.Order) error {
	audit(order) // want `^log.audit → slog.Warn \(log.go:\d+\) writes`
	return shop.Notify(ctx, order.Customer, "thanks")
}

func audit(order shop.Order) {
	if order.Cents > 100_000 {
		slog.Warn("a large order", "id", order.ID)
	}
}
