// Package expense asks one superior after the other.
package expense

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Expense is a bill that somebody paid.
type Expense struct {
	Employee string
	Cents    int
}

// Decision is what a superior says.
type Decision struct {
	By  string
	Yes bool
}

// Decisions come in for an expense.
var Decisions = workflow.NewTopic[Decision]("decisions")

var limits = []struct {
	role  string
	cents int
}{{"lead", 50_000}, {"head", 500_000}, {"board", 1 << 40}}

//flow:step
func ask(ctx context.Context, role, employee string, cents int) error { return ctx.Err() }

//flow:step
func reimburse(ctx context.Context, employee string, cents int) error { return ctx.Err() }

// escalate goes up until somebody decides who may.
//
//flow:workflow
func escalate(ctx workflow.Context, e Expense) (Decision, error) {
	for _, limit := range limits {
		if err := Ask(ctx, limit.role, e.Employee, e.Cents); err != nil {
			return Decision{}, err
		}
		decision, err := Decisions.Receive(ctx, workflow.Timeout(48*time.Hour))
		if errors.Is(err, workflow.ErrReceiveTimeout) {
			continue
		}
		if err != nil {
			return Decision{}, err
		}
		if !decision.Yes {
			return decision, nil
		}
		if e.Cents <= limit.cents {
			return decision, Reimburse(ctx, e.Employee, e.Cents)
		}
	}
	return Decision{}, errors.New("nobody decided")
}
