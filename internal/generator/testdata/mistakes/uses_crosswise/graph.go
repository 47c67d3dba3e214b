package uses_crosswise

import (
	"context"

	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	graphA = limit.New("grapha", limit.Config{AtOnce: 1})
	graphB = limit.New("graphb", limit.Config{AtOnce: 1})
)

// A graph holds one limit while its steps wait for another.
//
//flow:dag uses=graphA
type holdsAWaitsForB struct{}

//flow:step uses=graphB
func (holdsAWaitsForB) run(ctx context.Context) error { return nil }

//flow:step uses=graphA
func takesA(ctx context.Context) error { return nil }

//flow:workflow uses=graphB
func holdsBWaitsForA(ctx workflow.Context) error { return TakesA(ctx) }
