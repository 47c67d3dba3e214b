// Package loan grants loans that two people have looked at.
package loan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Application is what a customer asks for.
type Application struct {
	ID     string
	Cents  int
	Income map[string]int
}

// Review is what an officer says.
type Review struct {
	Officer string
	Grant   bool
}

// Reviews come in for an application.
var Reviews = workflow.NewTopic[Review]("reviews")

// ErrRejected says that an officer said no.
//
//flow:error
var ErrRejected = errors.New("the loan was rejected")

//flow:step
func assign(ctx context.Context, id string, eyes int) error { return ctx.Err() }

//flow:step
func payOut(ctx context.Context, id string, cents int) error { return ctx.Err() }

func yearly(income map[string]int) int {
	sum := 0
	for _, cents := range income {
		sum += cents
	}
	return sum
}

// grant waits for two officers who agree.
//
//flow:workflow timeout=720h
func grant(ctx workflow.Context, a Application) (string, error) {
	if a.Cents > yearly(a.Income)*3 {
		return "", ErrRejected
	}
	if err := Assign(ctx, a.ID, 2); err != nil {
		return "", err
	}
	officers := make(map[string]bool)
	for len(officers) < 2 {
		review, err := Reviews.Receive(ctx, workflow.Timeout(72*time.Hour))
		if err != nil {
			return "", fmt.Errorf("application %s: %w", a.ID, err)
		}
		if !review.Grant {
			return "", ErrRejected
		}
		officers[review.Officer] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(officers)), " and "), PayOut(ctx, a.ID, a.Cents)
}
