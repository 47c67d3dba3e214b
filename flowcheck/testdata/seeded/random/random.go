// Package random has workflow code that draws random numbers.
package random

import (
	crand "crypto/rand"
	"math/big"
	old "math/rand"
	"math/rand/v2"

	"github.com/google/uuid"
	"github.com/oklog/ulid/v2"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// raffle draws a winner.
//
//flow:workflow
func raffle(ctx workflow.Context, entries []string) (string, error) {
	winner := entries[rand.IntN(len(entries))] // want `^rand.IntN is random, and another value in every replay: use workflow.Rand or workflow.UUID, or draw it in a step \[random\]$`
	return winner, shop.Notify(ctx, winner, "you won")
}

// shuffle uses the older package.
//
//flow:workflow
func shuffle(ctx workflow.Context, entries []string) error {
	old.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] }) // want `^rand.Shuffle is random`
	return shop.Notify(ctx, entries[0], "you are first")
}

// ticket has the id of another module.
//
//flow:workflow
func ticket(ctx workflow.Context, customer string) error {
	id := uuid.NewString() // want `^uuid.NewString is random`
	return shop.Notify(ctx, customer, id)
}

// sortable has an id that grows.
//
//flow:workflow
func sortable(ctx workflow.Context, customer string) error {
	return shop.Notify(ctx, customer, ulid.Make().String()) // want `^ulid.Make is random`
}

// secret makes a token for a customer.
//
//flow:workflow
func secret(ctx workflow.Context, customer string) error {
	return shop.Notify(ctx, customer, crand.Text()) // want `^rand.Text is random`
}

// big draws a large number, from the reader of the system.
//
//flow:workflow
func bigNumber(ctx workflow.Context, customer string) error {
	n, err := crand.Int(crand.Reader, big.NewInt(100)) // want `^rand.Int is random` `^rand.Reader is random`
	if err != nil {
		return err
	}
	return shop.Notify(ctx, customer, n.String())
}

// jittered has a helper that waits a little longer each time.
//
//flow:workflow
func jittered(ctx workflow.Context, customer string) error {
	for n := range 3 {
		if err := workflow.Sleep(ctx, backoff(n)); err != nil { // want `^random.backoff → rand.N \(delay.go:\d+\) is random`
			return err
		}
	}
	return shop.Notify(ctx, customer, "done")
}

// lottery draws with a helper of a type.
//
//flow:workflow
func lottery(ctx workflow.Context, customer string) error {
	if (drum{}).draw() { // want `^random.drum.draw → rand.Float64 \(delay.go:\d+\) is random`
		return shop.Notify(ctx, customer, "you won")
	}
	return nil
}
