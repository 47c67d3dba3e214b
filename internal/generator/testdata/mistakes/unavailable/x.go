package unavailable

import "github.com/flowgen/flowgen/runtime/workflow"

//flow:workflow throttle=x,5/1s ratelimit=x,5/1s children=20
func flow(ctx workflow.Context) error { return nil }


//flow:ignore rule this is not for the generator
func ignored() {}
