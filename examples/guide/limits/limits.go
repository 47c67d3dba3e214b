// Package limits holds the code that docs/limits.md quotes.
package limits

import (
	"context"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/workflow"
)

//go:generate go run github.com/flowgen/flowgen/cmd/flowgen

var (
	// GPU is four graphics processors, wherever the workers are.
	GPU = limit.New("gpu", limit.Config{AtOnce: 4})
	// CRM takes a hundred requests a minute of the whole fleet.
	CRM = limit.New("crm", limit.Config{Rate: 100, Per: time.Minute})
	// PerHost is two requests at a time to each host.
	PerHost = limit.NewKeyed[string]("host", limit.Config{AtOnce: 2})
	// PerCustomer is one run of each customer at a time.
	PerCustomer = limit.NewKeyed[string]("customer", limit.Config{AtOnce: 1, Spread: true})
)

// Scene is what is rendered.
type Scene struct{ Name string }

// render needs two of the four processors while an attempt of it runs.
//
//flow:step uses=GPU:2
func render(_ context.Context, scene Scene) (string, error) {
	return "image of " + scene.Name, nil
}

// Page is a page of a host.
type Page struct{ Host, Path string }

// fetch is bounded for each host.
//
//flow:step uses=PerHost(page.Host)
func fetch(_ context.Context, page Page) (string, error) {
	return "page of " + page.Host, nil
}

// tell begins as often as the other side allows.
//
//flow:step uses=CRM
func tell(_ context.Context, customer, text string) error {
	if customer == "" {
		return fmt.Errorf("nobody to tell %q", text)
	}
	return nil
}

// Order is an order of a customer.
type Order struct{ Customer, Item string }

// fulfil has the permit of its customer from its first claim to its end.
//
//flow:workflow uses=PerCustomer(order.Customer)
func fulfil(ctx workflow.Context, order Order) (string, error) {
	if err := Tell(ctx, order.Customer, "it is on its way"); err != nil {
		return "", err
	}
	return Render(ctx, Scene{order.Item})
}

// crawl fetches pages of many hosts.
//
//flow:workflow
func crawl(ctx workflow.Context, pages []Page) ([]string, error) {
	return workflow.Map(ctx, pages, Fetch)
}

// Raise lets eight run at once from now on, on all workers.
func Raise(ctx context.Context, client *workflow.Client) error {
	return client.Limits().Set(ctx, GPU, limit.Config{AtOnce: 8})
}

// Hold lets nothing of one customer begin until Resume.
func Hold(ctx context.Context, client *workflow.Client, customer string) error {
	return client.Limits().Pause(ctx, PerCustomer.For(customer))
}

// Show prints what is under way and what waits.
func Show(ctx context.Context, client *workflow.Client) error {
	all, err := client.Limits().List(ctx)
	if err != nil {
		return err
	}
	for _, l := range all {
		fmt.Println(l.Name, l.Key, l.Held, l.Waits)
	}
	return nil
}
