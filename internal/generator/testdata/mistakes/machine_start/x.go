package machine_start

import (
	"context"

	"github.com/flowgen/flowgen/runtime/step"
)

//flow:machine start=a start=b
type twice struct{}

//flow:step
func (m *twice) a(ctx context.Context) (step.Next[twice, int], error) { return m.done(1), nil }

//flow:step
func (m *twice) b(ctx context.Context) (step.Next[twice, int], error) { return m.done(1), nil }

//flow:machine
type missing struct{}

//flow:step
func (m *missing) begin(ctx context.Context) (step.Next[missing, int], error) { return m.done(1), nil }

//flow:machine start=begni
type misspelt struct{}

//flow:step
func (m *misspelt) begin(ctx context.Context) (step.Next[misspelt, int], error) {
	return m.done(1), nil
}

//flow:machine start=helper
type unannotated struct{}

//flow:step
func (m *unannotated) begin(ctx context.Context) (step.Next[unannotated, int], error) {
	return m.done(1), nil
}

func (m *unannotated) helper(ctx context.Context) (step.Next[unannotated, int], error) {
	return m.done(1), nil
}

//flow:machine start=elsewhere
type elsewhere struct{}

//flow:step
func (m *elsewhere) one(ctx context.Context) (step.Next[elsewhere, int], error) {
	return m.done(1), nil
}

//flow:step
func (m *elsewhere) two(ctx context.Context) (step.Next[elsewhere, int], error) {
	return m.done(1), nil
}

//flow:machine start=pkg.step
type qualified struct{}

//flow:step
func (m *qualified) begin(ctx context.Context) (step.Next[qualified, int], error) {
	return m.done(1), nil
}

//flow:machine start=begin
//flow:machine start=begin max=5
type declaredTwice struct{}

//flow:step
func (m *declaredTwice) begin(ctx context.Context) (step.Next[declaredTwice, int], error) {
	return m.done(1), nil
}

//flow:machine start=begin
type without struct{}

func (m *without) begin(ctx context.Context) (step.Next[without, int], error) { return m.done(1), nil }
