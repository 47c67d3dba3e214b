package machine_steps

import (
	"context"

	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// flows has steps that return something else.
//
//flow:machine start=good
type flows struct{}

//flow:step
func (m *flows) good(ctx context.Context) (step.Next[flows, int], error) { return m.done(1), nil }

//flow:step
func (m *flows) nothing(ctx context.Context) error { return nil }

//flow:step
func (m *flows) value(ctx context.Context) (int, error) { return 1, nil }

//flow:step
func (m *flows) pointer(ctx context.Context) (*step.Next[flows, int], error) { return nil, nil }

//flow:step
func (m *flows) foreign(ctx context.Context) (step.Next[strict, int], error) {
	return step.Next[strict, int]{}, nil
}

//flow:step
func (m *flows) text(ctx context.Context) (step.Next[flows, string], error) { return m.done(""), nil }

//flow:step
func (m *flows) noError(ctx context.Context) step.Next[flows, int] { return m.done(1) }

//flow:step
func (m flows) byValue(ctx context.Context) (step.Next[flows, int], error) { return m.done(1), nil }

//flow:step
func (m *flows) variadic(ctx context.Context, all ...string) (step.Next[flows, int], error) {
	return m.done(1), nil
}

//flow:step
func (m *flows) world(ctx workflow.Context) (step.Next[flows, int], error) { return m.done(1), nil }

//flow:step
func (m *flows) channel(ctx context.Context, c chan int) (step.Next[flows, int], error) {
	return m.done(1), nil
}

//flow:step
func (m *flows) unnamed(context.Context, int) (step.Next[flows, int], error) { return m.done(1), nil }

//flow:step
func (m *flows) Exported(ctx context.Context) (step.Next[flows, int], error) { return m.done(1), nil }

// strict has a result that cannot be stored.
//
//flow:machine start=begin
type strict struct{}

//flow:step
func (m *strict) begin(ctx context.Context) (step.Next[strict, func()], error) { return m.done(1), nil }
