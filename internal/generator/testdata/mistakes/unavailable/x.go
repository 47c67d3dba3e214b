package unavailable

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

//flow:step after=a each=b if=C
func step(ctx context.Context) error { return nil }

//flow:workflow throttle=x,5/1s ratelimit=x,5/1s children=20
func flow(ctx workflow.Context) error { return nil }

//flow:machine start=first
type machine struct{}

//flow:dag
type graph struct{}

//flow:ignore rule this is not for the generator
func ignored() {}
