package machine_catch

import (
	"context"

	"github.com/flowgen/flowgen/runtime/step"
)

//flow:machine start=begin
type m struct{}

//flow:step catch=giveUpp
func (m *m) begin(ctx context.Context) (step.Next[m, int], error) { return m.done(1), nil }

//flow:step catch=nobody
func (m *m) unknown(ctx context.Context) (step.Next[m, int], error) { return m.done(1), nil }

//flow:step catch=itself
func (m *m) itself(ctx context.Context) (step.Next[m, int], error) { return m.done(1), nil }

//flow:step catch=takes2
func (m *m) takes(ctx context.Context, reason string) (step.Next[m, int], error) {
	return m.done(1), nil
}

//flow:step catch=takes
func (m *m) takes2(ctx context.Context, why step.Failure, more int) (step.Next[m, int], error) {
	return m.done(1), nil
}

//flow:step catch=giveUp
func (m *m) good(ctx context.Context) (step.Next[m, int], error) { return m.done(1), nil }

//flow:step catch=plain
func (m *m) empty(ctx context.Context) (step.Next[m, int], error) { return m.done(1), nil }

//flow:step
func (m *m) giveUp(ctx context.Context, why step.Failure) (step.Next[m, int], error) {
	return m.done(1), nil
}

//flow:step
func (m *m) plain(ctx context.Context) (step.Next[m, int], error) { return m.done(1), nil }

//flow:step catch=m.giveUp
func (m *m) garbage(ctx context.Context) (step.Next[m, int], error) { return m.done(1), nil }
