// Package control demonstrates how runs compensate their effects and handle changes of their code,
// and how a program holds, stops and continues runs.
package control

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/flowgen/flowgen/runtime/step/sqlstep"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Trip describes a journey to book.
type Trip struct {
	Hotel  string `json:"hotel"`
	Flight string `json:"flight"`
}

// Agency makes bookings with other companies.
type Agency struct {
	Full func(what string) bool // reports whether the hotel or flight is fully booked
	Log  func(line string)
}

// reserve makes a booking.
//
//flow:step retries=2 backoff=constant(1ms)
func (a *Agency) reserve(_ context.Context, what string) (string, error) {
	if a.Full(what) {
		return "", fmt.Errorf("%s is full", what)
	}
	a.Log("reserve " + what)
	return "booking of " + what, nil
}

// release cancels a booking.
//
//flow:step
func (a *Agency) release(_ context.Context, booking string) error {
	a.Log("release " + booking)
	return nil
}

// travel books both a hotel and a flight, or neither.
//
//flow:workflow
func travel(ctx workflow.Context, trip Trip) ([]string, error) {
	var bookings []string
	for _, what := range []string{trip.Hotel, trip.Flight} {
		booking, err := Reserve(ctx, what)
		if err != nil {
			return nil, err
		}
		workflow.Compensate(ctx, func(ctx workflow.Context) error { return Release(ctx, booking) })
		bookings = append(bookings, booking)
	}
	return bookings, nil
}

// Answer is the topic for the decision about a client.
var Answer = workflow.NewTopic[string]("answer")

// admit requests a decision about a client. The current version of the code also asks the bank.
//
//flow:workflow
func admit(ctx workflow.Context, client string) (string, error) {
	score := "unknown"
	if workflow.Version(ctx, "ask-the-bank", 1) >= 1 {
		var err error
		if score, err = Reserve(ctx, "score of "+client); err != nil {
			return "", err
		}
	}
	answer, err := Answer.Receive(ctx)
	return score + ": " + answer, err
}

// Studio contains the steps of a render farm.
type Studio struct{}

// render renders a scene.
//
//flow:step queue=gpu timeout=1h
func (s *Studio) render(_ context.Context, scene string) (string, error) {
	return "picture of " + scene, nil
}

// draw renders scenes in parallel.
//
//flow:workflow
func draw(ctx workflow.Context, scenes []string) ([]string, error) {
	return workflow.Map(ctx, scenes, Render)
}

// Ledger contains the steps that keep accounts in a SQL database.
type Ledger struct{ DB *sql.DB }

// deposit adds cents to an account exactly once.
//
//flow:step
func (l *Ledger) deposit(ctx context.Context, account string, cents int64) (int64, error) {
	return sqlstep.Do(ctx, l.DB, func(ctx context.Context, tx *sql.Tx) (balance int64, err error) {
		err = tx.QueryRowContext(ctx, "UPDATE accounts SET cents = cents + $1 WHERE name = $2 RETURNING cents", cents, account).Scan(&balance)
		return balance, err
	})
}

// save deposits money in an account.
//
//flow:workflow
func save(ctx workflow.Context, account string, cents int64) (int64, error) {
	return Deposit(ctx, account, cents)
}
