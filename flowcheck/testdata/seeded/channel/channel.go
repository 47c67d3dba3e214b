// Package channel has workflow code that uses channels.
package channel

import (
	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// sent gathers the results of branches.
//
//flow:workflow
func sent(ctx workflow.Context, carriers []string) error {
	offers := make(chan shop.Offer, len(carriers))
	return workflow.ForEach(ctx, carriers, func(ctx workflow.Context, carrier string) error {
		offer, err := shop.Quote(ctx, carrier)
		offers <- offer // want `^a send is not recorded, and may wait for ever while no other branch runs: use a future, a topic, or a variable: branches take turns \[channel\]$`
		return err
	})
}

// Desk hears of verdicts in the process.
type Desk struct{ verdicts, closed chan string }

// received waits for what another goroutine sends.
func (d *Desk) received(ctx workflow.Context, id string) error {
	verdict := <-d.verdicts // want `^a receive is not recorded`
	return shop.Notify(ctx, id, verdict)
}

// selected waits for either.
func (d *Desk) selected(ctx workflow.Context, id string) error {
	select { // want `^select is not recorded`
	case verdict := <-d.verdicts:
		return shop.Notify(ctx, id, verdict)
	case <-d.closed:
		return nil
	}
}

// ranged waits for all.
func (d *Desk) ranged(ctx workflow.Context, id string) error {
	for verdict := range d.verdicts { // want `^a range over a channel is not recorded`
		if err := shop.Notify(ctx, id, verdict); err != nil {
			return err
		}
	}
	return nil
}

// shut closes one.
func (d *Desk) shut(ctx workflow.Context, id string) error {
	close(d.closed) // want `^close is not recorded`
	return shop.Notify(ctx, id, "closed")
}

// assigned receives as a part of an assignment with ok.
func (d *Desk) assigned(ctx workflow.Context, id string) error {
	verdict, ok := <-d.verdicts // want `^a receive is not recorded`
	if !ok {
		return nil
	}
	return shop.Notify(ctx, id, verdict)
}

// helped has a helper that waits.
func (d *Desk) helped(ctx workflow.Context, id string) error {
	return shop.Notify(ctx, id, d.next()) // want `^channel.Desk.next → a receive \(channel.go:\d+\) is not recorded`
}

func (d *Desk) next() string { return <-d.verdicts }

// blocked waits for ever.
//
//flow:workflow
func blocked(ctx workflow.Context, id string) error {
	if err := shop.Notify(ctx, id, "waiting"); err != nil {
		return err
	}
	select {} // want `^select is not recorded`
}

// drained ranges over a channel of any kind.
func drained[C ~chan int | ~<-chan int](ctx workflow.Context, c C) (sum int) {
	for n := range c { // want `^a range over a channel is not recorded`
		sum += n
	}
	return sum
}
