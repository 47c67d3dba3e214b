// Package ways has three ways of one change, for runs of three ages.
package ways

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Applicant is somebody who wants an account.
type Applicant struct {
	Name  string
	Seed  uint64
	Since time.Time
}

//flow:step
func check(ctx context.Context, name string) (bool, error) { return name != "", ctx.Err() }

//flow:step
func score(ctx context.Context, name string) (int, error) { return len(name), ctx.Err() }

//flow:step
func interview(ctx context.Context, name, question string) (bool, error) {
	return question != "", ctx.Err()
}

var questions = []string{"where", "since when", "why"}

const vetting = "vetting"

// open asks in the way that the run began with.
//
//flow:workflow
func open(ctx workflow.Context, a Applicant) (bool, error) {
	switch workflow.Version(ctx, vetting, 2) {
	case 0:
		return Check(ctx, a.Name)
	case 1:
		points, err := Score(ctx, a.Name)
		return points > 3, err
	default:
		r := rand.New(rand.NewPCG(a.Seed, 1)) // the same in every replay
		question := questions[r.IntN(len(questions))]
		if workflow.Now(ctx).Sub(a.Since) > 365*24*time.Hour {
			question = questions[0]
		}
		return Interview(ctx, a.Name, question)
	}
}
