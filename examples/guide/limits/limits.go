// Package limits contains the code that docs/use/limits.md and related pages quote.
package limits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

//go:generate go run github.com/flowgen/flowgen/cmd/flowgen

var (
	// GPU limits the fleet to four concurrent uses of graphics processors.
	GPU = limit.New("gpu", limit.Config{AtOnce: 4})
	// CRM limits the fleet to 100 requests per minute.
	CRM = limit.New("crm", limit.Config{Rate: 100, Per: time.Minute})
	// PerHost limits the fleet to two concurrent requests to each host.
	PerHost = limit.NewKeyed[string]("host", limit.Config{AtOnce: 2})
	// PerCustomer limits each customer to one run at a time.
	PerCustomer = limit.NewKeyed[string]("customer", limit.Config{AtOnce: 1, Spread: true})
	// Memory limits the memory of each worker, in megabytes.
	Memory = limit.NewLocal("memory")
)

// Scene is rendered to an image.
type Scene struct{ Name string }

// render uses two of the four processors during each attempt.
//
//flow:step uses=GPU:2
func render(_ context.Context, scene Scene) (string, error) {
	return "image of " + scene.Name, nil
}

// Page is a page to fetch from a host.
type Page struct{ Host, Path string }

// index uses 512 MB of memory on its worker, and one processor of the fleet.
//
//flow:step uses=Memory:512,GPU
func index(_ context.Context, scene Scene) (string, error) {
	return "index of " + scene.Name, nil
}

// catalog uses a gigabyte of memory on its worker.
//
//flow:workflow uses=Memory:1024
func catalog(ctx workflow.Context, scenes []Scene) ([]string, error) {
	var all []string
	for _, scene := range scenes {
		text, err := Index(ctx, scene)
		if err != nil {
			return nil, err
		}
		all = append(all, text)
	}
	return all, nil
}

// Big returns a worker for machines with the given memory.
func Big(client *workflow.Client, megabytes int) *worker.Worker {
	return worker.New(client, worker.Config{
		Capacity: map[string]int{Memory.Name(): megabytes},
		AtOnce:   map[string]int{"reports": 2}, // at most two concurrent runs of this queue on this worker
	})
}

// fetch uses the limit for the host of the page.
//
//flow:step uses=PerHost(page.Host)
func fetch(_ context.Context, page Page) (string, error) {
	return "page of " + page.Host, nil
}

// tell begins its attempts at the rate that the limit CRM permits.
//
//flow:step uses=CRM
func tell(_ context.Context, customer, text string) error {
	if customer == "" {
		return fmt.Errorf("nobody to tell %q", text)
	}
	return nil
}

// Order is the input of fulfil. Only one order of a customer is fulfilled at a time.
type Order struct{ Customer, Item string }

// fulfil holds a permit of its customer from its first claim to its end.
//
//flow:workflow uses=PerCustomer(order.Customer)
func fulfil(ctx workflow.Context, order Order) (string, error) {
	if err := Tell(ctx, order.Customer, "it is on its way"); err != nil {
		return "", err
	}
	return Render(ctx, Scene{order.Item})
}

// crawl fetches pages from many hosts.
//
//flow:workflow
func crawl(ctx workflow.Context, pages []Page) ([]string, error) {
	return workflow.Map(ctx, pages, Fetch)
}

// Parcel is a parcel to deliver. The customer may have paid for a higher rank.
type Parcel struct {
	To   string
	Rank int
}

// deliver has a higher priority for a parcel with a higher rank.
//
//flow:workflow priority=parcel.Rank startwithin=30s
func deliver(ctx workflow.Context, parcel Parcel) (string, error) {
	return Render(ctx, Scene{"label for " + parcel.To})
}

// Report is the input of compile. It contains the share for which the tenant pays.
type Report struct {
	Tenant string
	Share  int // share of the tenant from 1 to 100
}

// compile compiles a report. Each tenant gets its share of the claims, even if a million reports of
// another tenant are waiting.
//
//flow:workflow fair=report.Tenant:report.Share
func compile(ctx workflow.Context, report Report) (string, error) {
	return report.Tenant, nil
}

// Today delivers a parcel. It returns false if the delivery does not begin in time.
func Today(ctx context.Context, client *workflow.Client, parcel Parcel) (bool, error) {
	_, err := Deliver.Execute(ctx, client, parcel, workflow.WithStartBy(time.Minute))
	if late, ok := errors.AsType[*workflow.RunError](err); ok && late.Code == "notstarted" {
		return false, nil
	}
	return err == nil, err
}

// Build is a build to deploy to an environment.
type Build struct{ Env, Commit string }

// deploy deploys a build to an environment. A newer build for the same environment cancels the run.
//
//flow:workflow singleton=b.Env,replace
func deploy(ctx workflow.Context, b Build) (string, error) {
	return Render(ctx, Scene{b.Commit + " in " + b.Env})
}

// Doc is a document that changes often.
type Doc struct{ ID, Text string }

// reindex starts ten seconds after the last change of a document, but at most two minutes after the
// first change. Its input is the document after the last change.
//
//flow:workflow debounce=doc.ID,10s,2m
func reindex(ctx workflow.Context, doc Doc) (string, error) {
	return Render(ctx, Scene{"index of " + doc.Text})
}

// Email is an email to send in a batch.
type Email struct{ To, Text string }

// dispatch sends up to a hundred emails in one run. It waits at most five seconds for them.
//
//flow:workflow batch=100,5s
func dispatch(ctx workflow.Context, emails []Email) (int, error) {
	for _, email := range emails {
		if err := Tell(ctx, email.To, email.Text); err != nil {
			return 0, err
		}
	}
	return len(emails), nil
}

// Send starts a run of dispatch, or adds the email to a run that has not begun.
func Send(ctx context.Context, client *workflow.Client, email Email) error {
	_, err := Dispatch.Start(ctx, client, email)
	return err
}

// Raise raises the limit GPU to eight on all workers.
func Raise(ctx context.Context, client *workflow.Client) error {
	return ops.New(client).Limits().Set(ctx, GPU, limit.Config{AtOnce: 8})
}

// Hold pauses the limit of one customer. No run of the customer gets a permit until Resume is
// called.
func Hold(ctx context.Context, client *workflow.Client, customer string) error {
	return ops.New(client).Limits().Pause(ctx, PerCustomer.For(customer))
}

// Show prints the number of active and the number of waiting holders of each limit.
func Show(ctx context.Context, client *workflow.Client) error {
	all, err := ops.New(client).Limits().List(ctx)
	if err != nil {
		return err
	}
	for _, l := range all {
		fmt.Println(l.Name, l.Key, l.Held, l.Waits)
	}
	return nil
}
