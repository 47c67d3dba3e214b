// Package exit has workflow code that ends the process.
package exit

import (
	"log"
	"os"
	"runtime"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// ended gives up.
//
//flow:workflow
func ended(ctx workflow.Context, order shop.Order) error {
	if err := shop.Notify(ctx, order.Customer, "hello"); err != nil {
		os.Exit(1) // want `^os.Exit ends the worker with all of its runs, again in every replay: return an error \[exit\]$`
	}
	return nil
}

// fatal says why.
//
//flow:workflow
func fatal(ctx workflow.Context, order shop.Order) error {
	must(shop.Notify(ctx, order.Customer, "hello")) // want `^exit.must → log.Fatal \(exit.go:\d+\) ends the worker`
	return nil
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// left leaves its goroutine.
//
//flow:workflow
func left(ctx workflow.Context, order shop.Order) error {
	if order.Cents == 0 {
		runtime.Goexit() // want `^runtime.Goexit ends the branch behind the back of the engine`
	}
	return shop.Notify(ctx, order.Customer, "hello")
}
