// Package methods holds steps that are methods: their dependencies live in the
// receiver, which Register takes. They spread over several files.
package methods

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Order is a sale.
type Order struct {
	ID    string
	Lines []Line
}

// Line is a part of an order.
type Line struct {
	Article string
	Count   int
}

// base is embedded: its methods belong to it, not to Shop.
type base struct{ region string }

// Base is its name in other packages.
type Base = base

// Shop has one method with a value receiver beside one with a pointer receiver:
// Register takes a pointer, and looks into it only when the step runs.
type Shop struct {
	base
	stock map[string]int
}

// Clock has value receivers only.
type Clock struct{ offset int }

// R has a name that Register uses itself.
type R func(string) string

// locate finds the region.
//
//flow:step
func (b base) locate(ctx context.Context) (string, error) { return b.region, nil }

// ship sends the order.
//
//flow:step nonidempotent
func (s *Shop) ship(ctx context.Context, order Order) (string, error) { return order.ID, nil }

//flow:step
func (s Shop) count(ctx context.Context, shop string, articles ...string) (int, error) {
	return len(articles), nil
}

//flow:step
func (c Clock) tick(ctx context.Context) error { return nil }

//flow:step
func (r R) rename(ctx context.Context, from string) (string, error) { return r(from), nil }

// Deliver is part of an interface, so it keeps its exported name.
//
//flow:step as=DeliverOrder
func (s *Shop) Deliver(ctx context.Context, order Order) error { return nil }

// Refund has the name of its method.
//
//flow:step as=Refund
func (s *Shop) Refund(ctx context.Context, order Order) error { return nil }

// Audit is called by other packages, too.
//
//flow:step as=AuditOrder
func Audit(ctx context.Context, order Order) error { return nil }

// sell ships what was ordered.
//
//flow:workflow
func sell(ctx workflow.Context, order Order) (string, error) {
	if _, err := Count(ctx, order.ID, "a", "b"); err != nil {
		return "", err
	}
	return Ship(ctx, order)
}
