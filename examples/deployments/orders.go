package main

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//go:generate go run github.com/flowgen/flowgen/cmd/flowgen

// packed is the message that an order is packed.
var packed = workflow.NewTopic[workflow.None]("packed")

// fulfil reserves the goods of an order, and ships them once they are packed. Each order stays on the
// build that has begun it, unless this build is retired.
//
//flow:workflow pin
func fulfil(ctx workflow.Context, order string) (string, error) {
	if err := Reserve(ctx, order); err != nil {
		return "", err
	}
	if _, err := packed.Receive(ctx); err != nil {
		return "", err
	}
	return Ship(ctx, order)
}

// parcels has the steps of a build.
type parcels struct{ build string }

//flow:step
func (p *parcels) reserve(_ context.Context, order string) error { return nil }

//flow:step
func (p *parcels) ship(_ context.Context, order string) (string, error) {
	return order + " is shipped by " + p.build, nil
}
