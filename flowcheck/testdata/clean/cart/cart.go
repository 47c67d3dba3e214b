// Package cart keeps a cart that answers questions.
package cart

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Line is a good in a cart.
type Line struct {
	Item  string
	N     int
	Cents int
}

// What a cart is asked, and hears.
var (
	Add      = workflow.NewAsk[Line, int]("add")
	Contents = workflow.NewAsk[string, []Line]("contents")
	Checkout = workflow.NewTopic[string]("checkout")
)

//flow:step
func inStock(ctx context.Context, item string, n int) (bool, error) { return n < 10, ctx.Err() }

//flow:step
func pay(ctx context.Context, customer string, cents int) error { return ctx.Err() }

func total(lines map[string]Line) (cents int) {
	for _, l := range lines {
		cents += l.N * l.Cents
	}
	return cents
}

// shop is open for a day.
//
//flow:workflow
func shop(ctx workflow.Context, customer string) (int, error) {
	lines := make(map[string]Line)
	Add.Handle(ctx, func(l Line) error {
		if l.N < 1 {
			return errors.New("nothing to add")
		}
		return nil
	}, func(ctx workflow.Context, l Line) (int, error) {
		if ok, err := InStock(ctx, l.Item, l.N); err != nil || !ok {
			return total(lines), err
		}
		l.N += lines[l.Item].N
		lines[l.Item] = l
		return total(lines), nil
	})
	Contents.Handle(ctx, nil, func(_ workflow.Context, prefix string) ([]Line, error) {
		var list []Line
		for item, l := range lines {
			if strings.HasPrefix(item, prefix) {
				list = append(list, l)
			}
		}
		slices.SortFunc(list, func(a, b Line) int { return strings.Compare(a.Item, b.Item) })
		return list, nil
	})
	if _, err := Checkout.Receive(ctx, workflow.Timeout(24*time.Hour)); err != nil {
		return 0, err
	}
	workflow.CloseAsks(ctx)
	return total(lines), Pay(ctx, customer, total(lines))
}
