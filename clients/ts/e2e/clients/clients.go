// Package clients has the workflow of the tests of the TypeScript client, whose types are made from it: flowgen types.
package clients

import (
	"errors"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Receipt says what a customer gets.
type Receipt struct {
	Customer string   `json:"customer"`
	Items    []string `json:"items"`
}

// Line is told of each item that was taken.
type Line struct {
	Number int    `json:"number"`
	Item   string `json:"item"`
}

// Items takes what the customer wants, Price is asked what it costs, Count has how many there are, Lines tells of each, and
// Latest of the last two.
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
