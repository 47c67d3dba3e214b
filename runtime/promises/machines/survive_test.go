package machines_test

import (
	"context"
	"errors"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

// drives returns a setup that sends messages with kilometers at the given times. fails decides
// which attempts of a leg fail.
func drives(fails func(leg string, attempt int) error, at ...time.Duration) func(env *workflowtest.Env) {
	return func(env *workflowtest.Env) {
		d := &depot{try: func(ctx context.Context, _ *trip, leg string) error { return fails(leg, step.Attempt(ctx)) }}
		machineOf(d, 30)(env)
		for i, at := range at {
			env.At(at, func(ctx context.Context) {
				err := legs.Send(ctx, env.Run(), 20+i, workflow.IdempotencyKey(strconv.Itoa(i)))
				if err != nil && !errors.Is(err, workflow.ErrRunTerminal) {
					panic(err)
				}
			})
		}
	}
}

func never(string, int) error { return nil }

func onceEach(_ string, attempt int) error {
	if attempt == 1 {
		return errors.New("fog")
	}
	return nil
}

func flatWhenAsked(leg string, _ int) error {
	if leg == "asked" {
		return step.Fatal(errFlat)
	}
	return nil
}

// TestCONT1_MachinesSurviveACrashAtEachPoint proves that machines survive a crash at each point and
// at each pair of points. The machines have cycles, waits with time limits, messages before and
// after the limits, retries, caught failures, and too many steps.
func TestCONT1_MachinesSurviveACrashAtEachPoint(t *testing.T) {
	in := map[string]struct {
		plan  string
		setup func(env *workflowtest.Env)
	}{
		"messages":            {"first", drives(never, time.Minute, 30*time.Minute, 40*time.Minute, 130*time.Minute, 170*time.Minute)},
		"reminders":           {"wait", drives(never, 90*time.Minute)},
		"nobody answers":      {"wait", drives(never)},
		"retries":             {"short", drives(onceEach)},
		"a failure is led on": {"first", drives(flatWhenAsked, time.Minute)},
		"asleep":              {"sleep", drives(never)},
		"too many":            {"loop", drives(never)},
	}
	for name, tt := range in {
		t.Run(name, func(t *testing.T) {
			r := workflowtest.CrashEverywhere(t, trips, tt.plan, tt.setup, workflowtest.Pairs(30))
			t.Logf("%+v", r)
		})
	}
}

func TestCONT1_MachinesHaveTheSameResultInEachOrderOfArrivals(t *testing.T) {
	workflowtest.Interleave(t, trips, "first", drives(never, time.Hour, time.Hour, 2*time.Hour, 3*time.Hour), 60, workflowtest.AllowUnread())
	workflowtest.Interleave(t, trips, "wait", drives(onceEach, time.Hour), 60, workflowtest.AllowUnread())
}

func TestFLOW15_TheScratchpadSurvivesCrashesOnEveryStore(t *testing.T) {
	url := redistest.Start(t).URL()
	n := 0
	for name, open := range map[string]func(t testing.TB) store.Store{
		"memory in 3 partitions": func(testing.TB) store.Store { return memstore.NewWith(memstore.Config{Partitions: 3}) },
		"sqlite": func(t testing.TB) store.Store {
			st, err := store.Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "flows.db"))
			if err != nil {
				t.Fatal(err)
			}
			return st
		},
		"redis": func(t testing.TB) store.Store {
			n++
			st, err := redisstore.Open(url + "?prefix=m" + strconv.Itoa(n))
			if err != nil {
				t.Fatal(err)
			}
			return st
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := workflowtest.CrashEverywhere(t, trips, "short", drives(onceEach), workflowtest.WithStore(open), workflowtest.Sample(6), workflowtest.Pairs(3))
			t.Logf("%+v", r)
		})
	}
}
