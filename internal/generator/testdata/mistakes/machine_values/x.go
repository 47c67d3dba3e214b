package machine_values

import (
	"context"

	"github.com/flowgen/flowgen/runtime/step"
)

//flow:machine start=begin max=many
type many struct{}

//flow:step
func (m *many) begin(ctx context.Context) (step.Next[many, int], error) { return m.done(1), nil }

//flow:machine start=begin max=0
type none struct{}

//flow:step
func (m *none) begin(ctx context.Context) (step.Next[none, int], error) { return m.done(1), nil }

//flow:machine start=begin max=-1
type negative struct{}

//flow:step
func (m *negative) begin(ctx context.Context) (step.Next[negative, int], error) {
	return m.done(1), nil
}

//flow:machine start=begin max
type empty struct{}

//flow:step
func (m *empty) begin(ctx context.Context) (step.Next[empty, int], error) { return m.done(1), nil }

//flow:machine start=begin retries=5 batch=10,5s strat=begin
type options struct{}

//flow:step
func (m *options) begin(ctx context.Context) (step.Next[options, int], error) { return m.done(1), nil }

//flow:machine start=begin schedule="0 3 * * *"
type scheduled struct{}

//flow:step
func (m *scheduled) begin(ctx context.Context, n int) (step.Next[scheduled, int], error) {
	return m.done(1), nil
}

//flow:machine start=begin priority=nobody
type priority struct{}

//flow:step
func (m *priority) begin(ctx context.Context, n int) (step.Next[priority, int], error) {
	return m.done(1), nil
}
