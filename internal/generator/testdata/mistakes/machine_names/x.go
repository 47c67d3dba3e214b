package machine_names

import (
	"context"

	"github.com/flowgen/flowgen/runtime/step"
)

//flow:machine start=begin
type names struct {
	goSecond int
}

//flow:step name=names.same
func (m *names) begin(ctx context.Context) (step.Next[names, int], error) { return m.done(1), nil }

//flow:step name=names.same
func (m *names) second(ctx context.Context, n int) (step.Next[names, int], error) {
	return m.done(1), nil
}

//flow:step
func (m *names) done(ctx context.Context) (step.Next[names, int], error) { return m.done(1), nil }

func (m *names) awaitSecond() {}

//flow:machine start=begin
type letters struct{}

//flow:step
func (m *letters) begin(ctx context.Context) (step.Next[letters, int], error) { return m.done(1), nil }

//flow:step as=Other
func (m *letters) Begin(ctx context.Context) (step.Next[letters, int], error) { return m.done(1), nil }

// Taken is the definition's name.
type Taken struct{}

//flow:machine start=begin
type taken struct{}

//flow:step
func (m *taken) begin(ctx context.Context) (step.Next[taken, int], error) { return m.done(1), nil }

func namesBeginStep() {}

type namesNext int
