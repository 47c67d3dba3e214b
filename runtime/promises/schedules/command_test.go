package schedules_test

import (
	"testing"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/worker"
)

func TestPOOL6_ABackfillOfAPausedScheduleStartsItsTicks(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, nightly)
		s := ops.New(w.Client).Schedules()
		setNightly(w, schedule.Spec{When: "0 12 * * *", Overlap: schedule.Allow})
		call(t, s.Pause(w.Ctx, "nightly", "stocktaking"))
		noon := at(t, "2026-03-01T12:00:00Z")
		call(t, s.Backfill(w.Ctx, "nightly", schedule.Backfill{From: noon, To: noon.AddDate(0, 0, 60)}))
		info := await(w, "the backfill is done", func(i schedule.Info) bool { return i.Started == 60 && len(i.Backfills) == 0 })
		if !info.Paused || !info.Next.IsZero() {
			t.Errorf("after the backfill: got paused %v, next tick %v; want it paused", info.Paused, info.Next)
		}
		for day := range 60 {
			ran(w, noon.AddDate(0, 0, day))
		}
		w.StopWorkers()
		w.Healthy()
	})
}

func TestPOOL6_TheRunOfATriggerCanBeAwaitedAtOnce(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, nightly)
		setNightly(w, schedule.Spec{When: "0 0 1 1 *", Overlap: schedule.Allow})
		for range 5 {
			run, err := ops.New(w.Client).Schedules().Trigger(w.Ctx, "nightly")
			call(t, err)
			if got, err := Nightly.Get(w.Client, run).Result(w.Ctx); err != nil || got != "in without a tick" {
				t.Errorf("result: got %q, %v; want the one of a trigger", got, err)
			}
		}
		w.StopWorkers()
		w.Healthy()
	})
}

// TestPOOL6_AScheduleThatIsCreatedAgainAsItIsWritesNothing proves that creating an existing
// schedule with the same definition writes nothing. It makes no difference whether earlier commands
// were executed or wait in the inbox.
func TestPOOL6_AScheduleThatIsCreatedAgainAsItIsWritesNothing(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		daily, hourly := schedule.Spec{When: "0 0 * * *"}, schedule.Spec{When: "0 * * * *"}
		size := func() [2]int {
			items, err := ops.New(w.Client).Inbox(w.Ctx, own(w).ID())
			call(t, err)
			return [2]int{len(w.Log(own(w))), len(items)}
		}
		unchanged := func(when string, s schedule.Spec) {
			t.Helper()
			before := size()
			setNightly(w, s)
			if after := size(); after != before {
				t.Errorf("%s: log and inbox have %v entries, want %v", when, after, before)
			}
		}
		setNightly(w, daily)
		unchanged("unserved", daily)
		call(t, ops.New(w.Client).Schedules().Update(w.Ctx, "nightly", hourly))
		unchanged("unserved, after an update", hourly)
		w.Work(worker.Config{}, nightly)
		await(w, "the update is obeyed", func(i schedule.Info) bool { return i.When == hourly.When })
		w.StopWorkers()
		unchanged("obeyed", hourly)

		before := size()
		setNightly(w, daily)
		if after := size(); after == before {
			t.Errorf("another definition: log and inbox have %v entries, as before", after)
		}
		w.Healthy()
	})
}

func TestPOOL6_APausedRunOfATickIsActiveForTheOverlap(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, stays)
		call(t, Stays.Schedule(w.Ctx, w.Client, "nightly", schedule.Spec{When: "0 0 1 1 *"}, ""))
		s := ops.New(w.Client).Schedules()
		first, err := s.Trigger(w.Ctx, "nightly")
		call(t, err)
		run := Stays.Get(w.Client, first)
		call(t, run.Pause(w.Ctx))
		if _, err := s.Trigger(w.Ctx, "nightly"); err != nil {
			t.Fatal(err)
		}
		if info := await(w, "the second trigger is answered", func(i schedule.Info) bool { return i.Started+i.Skipped == 2 }); info.Skipped != 1 {
			t.Errorf("the second trigger: got %+v, want it skipped", info)
		}
		call(t, run.Resume(w.Ctx))
		call(t, leave.Send(w.Ctx, run, "left"))
		flowtest.Result(w, run)
		w.StopWorkers()
		w.Healthy()
	})
}
