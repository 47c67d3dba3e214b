// Package record has workflow code whose recorded functions do too much.
package record

import (
	"sync"
	"time"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Desk is shared by runs.
type Desk struct {
	mu       sync.Mutex
	open     bool
	verdicts chan string
}

// stepped calls a step.
//
//flow:workflow
func stepped(ctx workflow.Context, order shop.Order) (string, error) {
	return workflow.Record(ctx, func() (string, error) {
		return shop.Charge(ctx, order.Customer, order.Cents) // want `^shop.Charge has durable operations, in the function of a Record, which no replay calls: call it in front of the Record \[record\]$`
	})
}

// slept waits.
//
//flow:workflow
func slept(ctx workflow.Context, order shop.Order) (bool, error) {
	return workflow.Record(ctx, func() (bool, error) {
		return true, workflow.Sleep(ctx, time.Minute) // want `^workflow.Sleep is a durable operation in the function of a Record`
	})
}

func (d *Desk) received(ctx workflow.Context, id string) (string, error) {
	return workflow.Record(ctx, func() (string, error) {
		return <-d.verdicts, nil // want `^a receive is in the function of a Record, for which the run stands still`
	})
}

func (d *Desk) sent(ctx workflow.Context, id string) (bool, error) {
	return workflow.Record(ctx, func() (bool, error) {
		d.verdicts <- id // want `^a send is in the function`
		return true, nil
	})
}

func (d *Desk) locked(ctx workflow.Context, id string) (bool, error) {
	return workflow.Record(ctx, func() (bool, error) {
		d.mu.Lock() // want `^sync.Mutex.Lock is in the function`
		defer d.mu.Unlock()
		return d.open, nil
	})
}

func (d *Desk) aside(ctx workflow.Context, id string) (bool, error) {
	return workflow.Record(ctx, func() (bool, error) {
		go d.note(id) // want `^go is in the function`
		return true, nil
	})
}

func (d *Desk) note(id string) { d.open = id != "" }
