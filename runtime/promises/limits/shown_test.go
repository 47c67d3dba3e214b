package limits_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestPOOL4_WhatCanNeverBeginIsShownWithOneWarning proves that a run that cannot begin is visible
// in its status and in Info. The log has one warning, however long the run waits and however many
// runs wait for the same reason.
func TestPOOL4_WhatCanNeverBeginIsShownWithOneWarning(t *testing.T) {
	large := flowtest.LimitedFlow[int, int]("limits.large", func(int) []limit.Use { return []limit.Use{memory.Use(900)} })
	forgotten := flowtest.Flow[int, int]("limits.forgotten")
	for name, tc := range map[string]struct {
		start   func(w *flowtest.World) *workflow.Run[int]
		message string
		shown   func(info *workflow.RunInfo) bool
	}{
		"a limit that no worker has so much of": {
			func(w *flowtest.World) *workflow.Run[int] { return flowtest.Start(w, large, 1) },
			"a run uses more of a local limit than this worker has",
			func(info *workflow.RunInfo) bool {
				return slices.Equal(info.Waits, []string{"test.memory"}) && !info.WaitsSince.IsZero() && !info.Unserved
			},
		},
		"a queue that nobody serves": {
			func(w *flowtest.World) *workflow.Run[int] { return flowtest.Start(w, forgotten, 1) },
			"a run waits for a worker, but no worker serves it",
			func(info *workflow.RunInfo) bool { return info.Unserved && len(info.Waits) == 0 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			flowtest.OnVirtualTimeAndRedis(t, func(t *testing.T, w *flowtest.World) {
				cfg := worker.Config{Capacity: map[string]int{"test.memory": 500}, Heartbeat: time.Minute, ClaimExpiry: 80_000 * time.Hour}
				w.Work(cfg, flowtest.Echoes, flowtest.As(large, func(_ workflow.Context, n int) (int, error) { return n, nil }))
				run, other := tc.start(w), tc.start(w)
				passes := func() {
					w.Clock.Advance(time.Minute)
					flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "time passes"))
				}
				w.Eventually("it is in the log", func() bool {
					passes()
					return len(w.Lines(tc.message)) > 0
				})
				for range 5 {
					passes()
				}
				if lines := w.Lines(tc.message); len(lines) != 1 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "fix=") {
					t.Errorf("the log says:\n%s\nwant one warning", strings.Join(lines, ""))
				}
				for _, r := range []*workflow.Run[int]{run, other} {
					info, err := r.Info(w.Ctx)
					if err != nil || info.Status != workflow.StatusPending {
						t.Errorf("it is %s, %v, want pending", info.Status, err)
					}
					if r == run && !tc.shown(&info) {
						t.Errorf("Info does not say why: %+v", info)
					}
				}
				w.Clock.Advance(time.Hour)
				for _, r := range []*workflow.Run[int]{run, other} {
					flowtest.Order(t, r.Cancel(w.Ctx, "never"))
				}
			})
		})
	}
}
