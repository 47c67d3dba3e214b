package workflow_test

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// releases simulates workers of several releases that execute the run of a schedule.
type releases struct {
	*flowtest.World

	from    time.Time // end of the range that has been backfilled
	started int
}

var released = flowtest.Flow[string, string]("released")

// work runs a worker of a release that continues a schedule as new after wants starts. It starts n
// more ticks, and returns the current run of the schedule. If continues is set, it waits until the
// schedule has continued as new.
func (r *releases) work(wants, n int, continues bool) workflow.RunID {
	r.T.Helper()
	was := r.info().Run
	before := workflow.WantStarts(wants)
	r.Work(worker.Config{}, flowtest.As(released, func(_ workflow.Context, in string) (string, error) { return in, nil }))
	to := r.from.AddDate(0, 0, n)
	if err := ops.New(r.Client).Schedules().Backfill(r.Ctx, "daily", schedule.Backfill{From: r.from, To: to}); err != nil {
		r.T.Fatal(err)
	}
	r.from, r.started = to, r.started+n
	r.Eventually("all are started", func() bool {
		info := r.info()
		return info.Started == r.started && (!continues || info.Run != was)
	})
	r.StopWorkers()
	workflow.WantStarts(before)
	return r.info().Run
}

func (r *releases) info() schedule.Info {
	r.T.Helper()
	info, err := ops.New(r.Client).Schedules().Get(r.Ctx, "daily")
	if err != nil {
		r.T.Fatal(err)
	}
	return info
}

func newReleases(t *testing.T) *releases {
	t.Helper()
	r := &releases{World: flowtest.NewWorld(t, memstore.New(), workflow.ClientConfig{}), from: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}
	if err := released.Schedule(r.Ctx, r.Client, "daily", schedule.Spec{When: "every 24h", Overlap: schedule.Allow}, "in"); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestVER1_ReleasesThatContinueSchedulesSoonerOrLaterExecuteTheSameRun proves that a release that
// continues schedules after fewer starts can execute the longer run of another release. It also
// proves the opposite direction.
func TestVER1_ReleasesThatContinueSchedulesSoonerOrLaterExecuteTheSameRun(t *testing.T) {
	r := newReleases(t)
	first := r.info().Run
	if run := r.work(100, 35, false); run != first {
		t.Fatalf("the schedule is run %s after 35 starts of 100, want run %s still", run, first)
	}
	second := r.work(20, 1, true)
	if events := r.Log(r.Client.Run(first)); events[len(events)-1].Type != event.RunContinued {
		t.Errorf("the first run ends with %s", events[len(events)-1].Type)
	}
	r.work(20, 15, false)
	if run := r.work(100, 15, false); run != second {
		t.Fatalf("the schedule is run %s after 30 starts of 100, want run %s still", run, second)
	}
	r.work(20, 1, true)
	for _, run := range []workflow.RunID{first, second} {
		for _, wants := range []int{100, 20, 7} {
			before := workflow.WantStarts(wants)
			if err := workflow.ReplaySchedule(r.Client, run, r.Log(r.Client.Run(run))); err != nil {
				t.Errorf("replay of run %s with %d starts wanted: %v", run, wants, err)
			}
			workflow.WantStarts(before)
		}
	}
	r.Healthy()
}
