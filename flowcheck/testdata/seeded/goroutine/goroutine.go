// Package goroutine has workflow code that starts goroutines.
package goroutine

import (
	"runtime"
	"sync"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// aside starts a goroutine around a step.
//
//flow:workflow
func aside(ctx workflow.Context, order shop.Order) error {
	go shop.Notify(ctx, order.Customer, "thanks") // want `^go leaves the order of things to the scheduler, and durable operations panic there: use workflow.Go \[goroutine\]$`
	return shop.Reserve(ctx, order.Lines[0], 1)
}

// literal does so with a function.
//
//flow:workflow
func literal(ctx workflow.Context, order shop.Order) error {
	go func() { // want `^go leaves`
		_, _ = shop.Charge(ctx, order.Customer, order.Cents)
	}()
	return nil
}

// grouped has a group.
//
//flow:workflow
func grouped(ctx workflow.Context, order shop.Order) error {
	var group sync.WaitGroup
	for _, line := range order.Lines {
		group.Go(func() { _ = shop.Reserve(ctx, line, 1) }) // want `^sync.WaitGroup.Go leaves`
	}
	return shop.Notify(ctx, order.Customer, "reserved")
}

// branched does it inside of a branch.
//
//flow:workflow
func branched(ctx workflow.Context, order shop.Order) error {
	f := workflow.GoErr(ctx, func(ctx workflow.Context) error {
		go shop.Notify(ctx, order.Customer, "thanks") // want `^go leaves`
		return nil
	})
	_, err := f.Get(ctx)
	return err
}

// helped has a helper that computes aside.
//
//flow:workflow
func helped(ctx workflow.Context, order shop.Order) error {
	n := sum(order.Stock) // want `^goroutine.sum → go \(goroutine.go:\d+\) leaves`
	return shop.Reserve(ctx, order.ID, n)
}

func sum(stock map[string]int) int {
	total := 0
	var group sync.WaitGroup
	group.Add(1)
	go func() {
		defer group.Done()
		for _, n := range stock {
			total += n
		}
	}()
	return total
}

// locked holds a thread.
//
//flow:workflow
func locked(ctx workflow.Context, order shop.Order) error {
	runtime.LockOSThread() // want `^runtime.LockOSThread leaves`
	return shop.Reserve(ctx, order.ID, 1)
}
