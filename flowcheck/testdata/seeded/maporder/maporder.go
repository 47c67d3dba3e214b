// Package maporder has workflow code that leaves the order to a map.
package maporder

import (
	"maps"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/flowcheck/testdata/seeded/shop"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// reserved calls a step for each entry.
//
//flow:workflow
func reserved(ctx workflow.Context, order shop.Order) error {
	for item, n := range order.Stock { // want `^the body of this range over a map calls shop.Reserve, in another order in every replay: range over slices.Sorted\(maps.Keys\(…\)\) \[maporder\]$`
		if err := shop.Reserve(ctx, item, n); err != nil {
			return err
		}
	}
	return nil
}

// indirect calls a helper that calls it.
//
//flow:workflow
func indirect(ctx workflow.Context, order shop.Order) error {
	for item := range order.Stock { // want `^the body of this range over a map calls maporder.one`
		if err := one(ctx, item); err != nil {
			return err
		}
	}
	return nil
}

func one(ctx workflow.Context, item string) error { return two(ctx, item) }

func two(ctx workflow.Context, item string) error { return shop.Reserve(ctx, item, 1) }

// keyed ranges over the keys of package maps.
//
//flow:workflow
func keyed(ctx workflow.Context, order shop.Order) error {
	for item := range maps.Keys(order.Stock) { // want `^the body of this range over a map calls shop.Reserve`
		if err := shop.Reserve(ctx, item, 1); err != nil {
			return err
		}
	}
	return nil
}

// appended gathers the keys, and gives them to a step.
//
//flow:workflow
func appended(ctx workflow.Context, order shop.Order) error {
	var items []string
	for item, n := range order.Stock { // want `^this range over a map fills items, which a durable operation gets`
		if n == 0 {
			items = append(items, item)
		}
	}
	return shop.Release(ctx, items)
}

// mapped gathers the keys, and has a branch for each.
//
//flow:workflow
func mapped(ctx workflow.Context, order shop.Order) error {
	items := make([]string, 0, len(order.Stock))
	for item := range order.Stock { // want `^this range over a map fills items`
		items = append(items, item)
	}
	_, err := workflow.Map(ctx, items, shop.Quote)
	return err
}

// turned gathers the keys, and ranges over them.
//
//flow:workflow
func turned(ctx workflow.Context, order shop.Order) error {
	var items []string
	for item := range order.Stock { // want `^this range over a map fills items`
		items = append(items, item)
	}
	for _, item := range items {
		if err := shop.Reserve(ctx, item, 1); err != nil {
			return err
		}
	}
	return nil
}

// collected has the keys as a slice.
//
//flow:workflow
func collected(ctx workflow.Context, order shop.Order) error {
	items := slices.Collect(maps.Keys(order.Stock)) // want `^items has the entries of a map, and a durable operation gets it`
	return shop.Release(ctx, items)
}

// inline gives them to the step at once.
//
//flow:workflow
func inline(ctx workflow.Context, order shop.Order) error {
	return shop.Release(ctx, slices.Collect(maps.Keys(order.Stock))) // want `^a durable operation gets the entries of a map`
}

// started starts a branch for each entry.
//
//flow:workflow
func started(ctx workflow.Context, order shop.Order) error {
	var offers []*workflow.Future[shop.Offer]
	for carrier := range order.Stock { // want `^the body of this range over a map calls workflow.Go`
		offers = append(offers, workflow.Go(ctx, func(ctx workflow.Context) (shop.Offer, error) { return shop.Quote(ctx, carrier) }))
	}
	_, err := workflow.All(ctx, offers...)
	return err
}

// numbered draws a number for each entry, in a generic helper.
//
//flow:workflow
func numbered(ctx workflow.Context, order shop.Order) error {
	return shop.Notify(ctx, order.Customer, ids(ctx, order.Stock)["book"])
}

func ids[M ~map[string]V, V any](ctx workflow.Context, of M) map[string]string {
	ids := make(map[string]string)
	for name := range of { // want `^the body of this range over a map calls workflow.UUID`
		ids[name] = workflow.UUID(ctx)
	}
	return ids
}

// ranged ranges over keys that were collected.
func ranged(ctx workflow.Context, order shop.Order) error {
	for _, item := range slices.Collect(maps.Keys(order.Stock)) { // want `^the body of this range over a map calls shop.Reserve`
		if err := shop.Reserve(ctx, item, 1); err != nil {
			return err
		}
	}
	return nil
}

// extended adds the keys to others.
func extended(ctx workflow.Context, order shop.Order) error {
	items := []string{"first"}
	items = slices.AppendSeq(items, maps.Keys(order.Stock)) // want `^items has the entries of a map, and a durable operation gets it`
	return shop.Release(ctx, items)
}

// text makes one text of the keys.
func text(ctx workflow.Context, order shop.Order) error {
	items := slices.Collect(maps.Keys(order.Stock)) // want `^items has the entries of a map, and a durable operation gets it`
	list := strings.Join(items, ", ")
	return shop.Notify(ctx, order.Customer, list)
}

// added adds each key to a text.
func added(ctx workflow.Context, order shop.Order) error {
	list := ""
	for item := range order.Stock { // want `^this range over a map fills list, which a durable operation gets`
		list += item + " "
	}
	return shop.Notify(ctx, order.Customer, list)
}

// helped gets the keys from functions.
func helped(ctx workflow.Context, order shop.Order) error {
	items := names(order.Stock) // want `^items has the entries of a map, and a durable operation gets it`
	if err := shop.Release(ctx, items); err != nil {
		return err
	}
	for _, item := range outer(order.Stock) { // want `^the body of this range over a map calls shop.Reserve`
		if err := shop.Reserve(ctx, item, 1); err != nil {
			return err
		}
	}
	return shop.Notify(ctx, order.Customer, anyOf(order.Stock)) // want `^a durable operation gets the entries of a map`
}

// quiet sorts, counts, or asks for the length.
func quiet(ctx workflow.Context, order shop.Order) error {
	items := names(order.Stock)
	slices.Sort(items)
	if err := shop.Release(ctx, items); err != nil {
		return err
	}
	dots := ""
	for range order.Stock {
		dots += "."
	}
	others := names(order.Stock)
	if err := shop.Reserve(ctx, dots, len(others)); err != nil {
		return err
	}
	return shop.Release(ctx, sorted(order.Stock))
}

func names(of map[string]int) []string {
	var list []string
	for name := range of {
		list = append(list, name)
	}
	return list
}

func outer(of map[string]int) []string { return names(of) }

func anyOf(of map[string]int) string {
	for name := range of {
		return name
	}
	return ""
}

func sorted(of map[string]int) []string {
	list := slices.Collect(maps.Keys(of))
	slices.Sort(list)
	return list
}
