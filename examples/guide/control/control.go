// Package control shows how runs undo what they did, change their ways, and are
// held, stopped and continued from outside.
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

// Agency books at other companies.
type Agency struct {
	Full func(what string) bool // nothing is left of it
	Log  func(line string)
}

// reserve books something.
//
//flow:step retries=2 backoff=constant(1ms)
func (a *Agency) reserve(_ context.Context, what string) (string, error) {
	if a.Full(what) {
		return "", fmt.Errorf("%s is full", what)
	}
	a.Log("reserve " + what)
	return "booking of " + what, nil
}

// release gives a booking back.
//
//flow:step
func (a *Agency) release(_ context.Context, booking string) error {
	a.Log("release " + booking)
	return nil
}

// travel books a hotel and a flight, or neither.
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

// Answer is whether a client was accepted.
var Answer = workflow.NewTopic[string]("answer")

// admit asks somebody about a client, and the bank since that was invented.
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

// Studio has graphics processors.
type Studio struct{}

// render draws a scene.
//
//flow:step queue=gpu timeout=1h
func (s *Studio) render(_ context.Context, scene string) (string, error) {
	return "picture of " + scene, nil
}

// draw draws scenes at the same time.
//
//flow:workflow
func draw(ctx workflow.Context, scenes []string) ([]string, error) {
	return workflow.Map(ctx, scenes, Render)
}

// Ledger keeps accounts in a SQL database.
type Ledger struct{ DB *sql.DB }

// deposit adds to an account, once, whatever happens.
//
//flow:step
func (l *Ledger) deposit(ctx context.Context, account string, cents int64) (int64, error) {
	return sqlstep.Do(ctx, l.DB, func(ctx context.Context, tx *sql.Tx) (balance int64, err error) {
		err = tx.QueryRowContext(ctx, "UPDATE accounts SET cents = cents + $1 WHERE name = $2 RETURNING cents", cents, account).Scan(&balance)
		return balance, err
	})
}

// save brings money to the bank.
//
//flow:workflow
func save(ctx workflow.Context, account string, cents int64) (int64, error) {
	return Deposit(ctx, account, cents)
}
