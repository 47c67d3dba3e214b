package machines

import (
	"context"

	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// counter has a step of a name that another machine has, too, and no result. What it needs has
// the name of what that needs, and another type.
//
//flow:machine start=begin
type counter struct {
	N      int
	Seen   map[string]int
	mailer *Counts
	now    int
}

// Counts is told of each step.
type Counts struct{ Steps int }

//flow:step
func (c *counter) begin(_ context.Context, from, to int) (step.Next[counter, workflow.None], error) {
	c.N = from
	return c.goCount(to), nil
}

//flow:step
func (c *counter) count(_ context.Context, to int) (step.Next[counter, workflow.None], error) {
	c.mailer.Steps += c.now
	if c.N++; c.N < to {
		return c.goCount(to), nil
	}
	return c.goVerify(), nil
}

//flow:step
func (c *counter) verify(context.Context) (step.Next[counter, workflow.None], error) {
	return c.done(), nil
}
