package flows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Cart is the input of checkout. It contains the amount to pay.
type Cart struct {
	Customer string `json:"customer"`
	Cents    int    `json:"cents"`
}

// Transfer is a report of the payment service about a payment.
type Transfer struct {
	Cents int `json:"cents"`
}

// Stage contains the progress of a checkout. Paid receives the payment, and Discount receives
// requests for a lower price.
var (
	Stage    = workflow.NewValue[string]("stage")
	Paid     = workflow.NewHook[Transfer]("paid")
	Discount = workflow.NewAsk[int, int]("discount") // The request is a percentage, and the answer is the new price.
)

// transferForm describes a Transfer for programs that are not written in Go.
var transferForm = json.RawMessage(`{"type":"object","required":["cents"],"properties":{"cents":{"type":"integer","minimum":1}}}`)

// ErrTooHigh is returned for a discount that is too high.
//
//flow:error
var ErrTooHigh = errors.New("the discount is too high")

// bill sends the payment service a token. The service uses the token to report payments.
//
//flow:step
func bill(ctx context.Context, customer, token string) error {
	slog.InfoContext(ctx, "please pay", "customer", customer, "token bytes", len(token))
	return nil
}

// checkout waits until the price is paid. Discounts may reduce the price in the meantime.
//
//flow:workflow
func checkout(ctx workflow.Context, cart Cart) (int, error) {
	price := cart.Cents
	Discount.Handle(ctx, func(percent int) error {
		if percent > 30 {
			return ErrTooHigh
		}
		return nil
	}, func(_ workflow.Context, percent int) (int, error) {
		price -= price * percent / 100
		return price, nil
	})

	paid, err := Paid.Open(ctx, workflow.Describe(workflow.HookMeta{
		Title: fmt.Sprintf("%d cents of %s", cart.Cents, cart.Customer), Form: transferForm, Answerers: []string{"group:payments"},
	}))
	if err != nil {
		return 0, err
	}
	defer paid.Dispose(ctx)
	if err := Bill(ctx, cart.Customer, paid.Token()); err != nil {
		return 0, err
	}
	got := 0
	for got < price {
		Stage.Set(ctx, fmt.Sprintf("%d paid", got))
		p, err := paid.Receive(ctx, workflow.Timeout(7*24*time.Hour))
		if err != nil {
			return got, err
		}
		got += p.Cents
	}
	workflow.CloseAsks(ctx)
	Stage.Set(ctx, "done")
	return got, nil
}

// Report handles a report of the payment service.
func Report(ctx context.Context, client *workflow.Client, token, callID string, body json.RawMessage) error {
	err := client.SendToHook(ctx, token, body, workflow.IdempotencyKey(callID))
	if errors.Is(err, workflow.ErrHookDisposed) || errors.Is(err, workflow.ErrHookNotFound) {
		return fmt.Errorf("nobody waits for this payment: %w", err) // Respond with 410 or 404, so that the service does not retry.
	}
	return err
}

// Form returns the title and the form for the page that the owner of a token opens.
func Form(ctx context.Context, client *workflow.Client, token string) (title string, form json.RawMessage, err error) {
	hook, err := client.Hook(ctx, token)
	switch {
	case err != nil:
		return "", nil, err
	case hook.Closed:
		return hook.Meta.Title + " (done)", nil, nil
	}
	return hook.Meta.Title, hook.Meta.Form, nil
}

// OpenBills lists the hooks for which a checkout waits, for operators.
func OpenBills(ctx context.Context, client *workflow.Client, id workflow.RunID) (titles []string, err error) {
	hooks, err := client.Run(id).Hooks(ctx)
	for _, hook := range hooks {
		titles = append(titles, hook.Meta.Title)
	}
	return titles, err
}

// Haggle requests a discount from a checkout and returns the new price.
func Haggle(ctx context.Context, client *workflow.Client, id workflow.RunID, percent int) (int, error) {
	price, err := Discount.Ask(ctx, client.Run(id), percent, workflow.IdempotencyKey(fmt.Sprint("percent ", percent)))
	if errors.Is(err, ErrTooHigh) {
		return 0, fmt.Errorf("ask for less: %w", err)
	}
	return price, err
}

// Show prints the stage of a checkout at each change, until the run has ended.
func Show(ctx context.Context, client *workflow.Client, id workflow.RunID, line func(string)) error {
	for stage, err := range Stage.Watch(ctx, client.Run(id)) {
		if err != nil {
			return err
		}
		line(stage)
	}
	return nil
}

// hall admits one visitor at a time, because only one open hook can have its token. The token is
// public.
//
//flow:workflow
func hall(ctx workflow.Context, name string) (string, error) {
	door, err := Paid.Open(ctx, workflow.Token("hall-"+name))
	if taken, ok := errors.AsType[*workflow.TokenConflictError](err); ok {
		return "", fmt.Errorf("hall %s is rented by run %s: %w", name, taken.Holder, err)
	}
	if err != nil {
		return "", err
	}
	p, err := door.Receive(ctx)
	return fmt.Sprintf("%s for %d", name, p.Cents), err
}
