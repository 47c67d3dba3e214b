package runs_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var byWeather = flowtest.As(flowtest.Unsound, func(ctx workflow.Context, n int) (int, error) {
	if flowtest.Weather == "fine" {
		if err := workflow.Sleep(ctx, time.Nanosecond); err != nil {
			return 0, err
		}
	}
	return flowtest.Numbers.Receive(ctx)
})

func TestVER1_ResultSaysThatTheRunIsBlockedAndWhichCauseIsLikelier(t *testing.T) {
	changed := flowtest.As(flowtest.Unsound, func(ctx workflow.Context, n int) (int, error) { return flowtest.Numbers.Receive(ctx) })
	for name, tt := range map[string]struct {
		second      flowtest.Binding
		likely, not string
	}{
		"the same program": {byWeather, "The same program has recorded this", "Another program"},
		"another program":  {changed, "Another program has recorded this", "The same program"},
	} {
		t.Run(name, func(t *testing.T) {
			flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
				err := w.WhyBlocked(byWeather, tt.second)
				if !errors.Is(err, workflow.ErrRunBlocked) || !errors.Is(err, context.DeadlineExceeded) {
					t.Fatalf("got %v, want one that matches ErrRunBlocked and the error of the context", err)
				}
				for _, part := range []string{"is blocked", tt.likely, "time.Now", "workflow.Version"} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("the error lacks %q: %v", part, err)
					}
				}
				if strings.Contains(err.Error(), tt.not) {
					t.Errorf("the error says %q: %v", tt.not, err)
				}
			})
		})
	}
}
