package flows

import (
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// price returns the offer for one parcel of a shipment.
//
//flow:workflow
func price(ctx workflow.Context, carrier string) (Offer, error) {
	return Quote(ctx, carrier)
}

// shipment requests an offer for each parcel in a run of its own, and starts a run that monitors
// the shipment.
//
//flow:workflow children=100
func shipment(ctx workflow.Context, carriers []string) ([]Offer, error) {
	watch := Review.StartChild(ctx, "customs", workflow.WithID("customs"),
		workflow.WithParentClose(workflow.ParentCloseAbandon))
	err := watch.Started(ctx)
	var active *workflow.ActiveRunError
	if err != nil && !errors.As(err, &active) { // a monitor is already active
		return nil, err
	}
	return workflow.Map(ctx, carriers, Price.Child, workflow.Limit(50))
}

// Payment is a payment to an account.
var Payment = workflow.NewTopic[int]("payment")

// Account is the state of an account.
type Account struct {
	Cents int `json:"cents"`
	Days  int `json:"days"`
}

// account adds up payments, possibly for years.
//
//flow:workflow as=AccountLoop
func account(ctx workflow.Context, a Account) error {
	for workflow.LogLength(ctx) < 10_000 {
		cents, err := Payment.Receive(ctx, workflow.Timeout(24*time.Hour))
		switch {
		case errors.Is(err, workflow.ErrReceiveTimeout):
			a.Days++
		case err != nil:
			return err
		default:
			a.Cents += cents
		}
	}
	return AccountLoop.ContinueAsNew(ctx, a)
}

// forward forwards payments to another account.
//
//flow:workflow
func forward(ctx workflow.Context, to string) error {
	for {
		cents, err := Payment.Receive(ctx)
		if err != nil {
			return err
		}
		if err := Payment.SendFrom(ctx, workflow.RunID(to), cents); err != nil {
			return err
		}
	}
}

// Tracking is the tracking number of a delivery. Stops contains the places where it was seen.
var (
	Tracking = workflow.NewValue[string]("tracking")
	Stops    = workflow.NewStream[string]("stops")
)

// delivery continues for a long time after it has a number.
//
//flow:workflow
func delivery(ctx workflow.Context, order string) error {
	Stops.Write(ctx, "depot")
	Tracking.Set(ctx, "T-"+order)
	_, err := Payment.Receive(ctx)
	return err
}

// Followed contains the tracking data of a parcel for its customer.
type Followed struct {
	Number string   `json:"number"`
	Stops  []string `json:"stops"`
	Status string   `json:"status"`
}

// dispatch ends when the delivery can be tracked, before the delivery ends.
//
//flow:workflow
func dispatch(ctx workflow.Context, order string) (Followed, error) {
	child := Delivery.StartChild(ctx, order, workflow.WithParentClose(workflow.ParentCloseAbandon))
	number, err := Tracking.WaitFrom(ctx, child, workflow.Timeout(24*time.Hour))
	if err != nil {
		return Followed{}, err
	}
	f := Followed{Number: number}
	part, err := Stops.ReadFrom(ctx, child)
	if err != nil {
		return f, err
	}
	for _, stop := range part.Chunks {
		f.Stops = append(f.Stops, stop.Value)
	}
	status, err := workflow.StatusOf(ctx, workflow.Other(child.ID()))
	f.Status = string(status)
	return f, err
}
