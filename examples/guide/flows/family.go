package flows

import (
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// price returns the offer for one parcel.
//
//flow:workflow
func price(ctx workflow.Context, carrier string) (Offer, error) {
	return Quote(ctx, carrier)
}

// shipment requests an offer for each parcel from a child run, and starts a run that monitors the
// shipment.
//
//flow:workflow children=100
func shipment(ctx workflow.Context, carriers []string) ([]Offer, error) {
	watch := Review.StartChild(ctx, "customs", workflow.WithID("customs"),
		workflow.WithParentClose(workflow.ParentCloseAbandon))
	err := watch.Started(ctx)
	var active *workflow.ActiveRunError
	if err != nil && !errors.As(err, &active) { // It is no error if a monitor is active.
		return nil, err
	}
	return workflow.Map(ctx, carriers, Price.Child, workflow.Limit(50))
}

// Payment is a payment to an account.
var Payment = workflow.NewTopic[int]("payment")

// Account is the state of account.
type Account struct {
	Cents int `json:"cents"`
	Days  int `json:"days"`
}

// account adds up payments. It may run for years.
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

// forward sends the payments that it receives to another account.
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

// Tracking is the tracking number of a delivery. Stops contains the places that the delivery has
// passed.
var (
	Tracking = workflow.NewValue[string]("tracking")
	Stops    = workflow.NewStream[string]("stops")
)

// delivery publishes a tracking number and then continues for a long time.
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

// dispatch ends when the delivery has a tracking number. The delivery continues.
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
