package machine_types

import (
	"context"

	"github.com/flowgen/flowgen/runtime/step"
)

//flow:machine start=begin
type list []string

//flow:step
func (m list) begin(ctx context.Context) (step.Next[list, int], error) { return m.done(1), nil }

//flow:machine start=begin
type generic[T any] struct{}

//flow:step
func (m *generic[T]) begin(ctx context.Context) (step.Next[generic[T], int], error) {
	return m.done(1), nil
}

//flow:machine start=begin
type alias = other

type other struct{}

//flow:machine start=begin
func function() {}

//flow:machine start=begin
var variable int

//flow:machine start=begin
type Exported struct{}

//flow:step
func (m *Exported) begin(ctx context.Context) (step.Next[Exported, int], error) {
	return m.done(1), nil
}

//flow:machine start=begin
//flow:error
type both struct{}

//flow:step
func (m *both) begin(ctx context.Context) (step.Next[both, int], error) { return m.done(1), nil }

//flow:machine start=begin
type _x struct{}

//flow:step
func (m *_x) begin(ctx context.Context) (step.Next[_x, int], error) { return m.done(1), nil }

//flow:step
func stray(ctx context.Context) (step.Next[other, int], error) { return step.Next[other, int]{}, nil }

//flow:step catch=stray
func catches(ctx context.Context) error { return nil }
