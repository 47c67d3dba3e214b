// Package clients contains the workflow for the tests of the TypeScript client. flowgen types
// generates the TypeScript types of the tests from this package.
package clients

import (
	"errors"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Receipt is the result of an order.
type Receipt struct {
	Customer string   `json:"customer"`
	Items    []string `json:"items"`
}

// Line is an entry of the stream Lines for one item.
type Line struct {
	Number int    `json:"number"`
	Item   string `json:"item"`
}

// Items receives the items of the customer. Price is an ask for the price of an item. Count
// publishes the number of items. Lines contains an entry for each item, and Latest keeps only the
// last two entries.
var (
	Items = workflow.NewTopic[string]("items")
	Price = workflow.NewAsk[int, int]("price")
	Count = workflow.NewValue[int]("count")
	Lines = workflow.NewStream[Line]("lines")

	Latest = workflow.NewStream[int]("latest", workflow.KeepLast(2))
)

// order collects items until one of them is "done".
//
//flow:workflow
func order(ctx workflow.Context, customer string) (Receipt, error) {
	got := Receipt{Customer: customer, Items: []string{}}
	Price.Handle(ctx, func(each int) error {
		if each < 0 {
			return errors.New("a price is not negative")
		}
		return nil
	}, func(_ workflow.Context, each int) (int, error) { return each * len(got.Items), nil })
	for {
		Count.Set(ctx, len(got.Items))
		item, err := Items.Receive(ctx)
		if err != nil || item == "done" {
			return got, err
		}
		got.Items = append(got.Items, item)
		Lines.Write(ctx, Line{Number: len(got.Items), Item: item})
		Latest.Write(ctx, len(got.Items))
	}
}
