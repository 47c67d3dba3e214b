package schedules_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/worker"
)

// TestPOOL6_AScheduleRefusesOrdersThatNoClientGives proves that a schedule refuses commands that no
// client creates. Such a command could start internal workflows with any input, or make the
// schedule continue as new for ever because it has no queue.
func TestPOOL6_AScheduleRefusesOrdersThatNoClientGives(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, nightly)
		setNightly(w, schedule.Spec{When: "0 0 1 1 *"})
		trigger(w)
		before := await(w, "the trigger", func(i schedule.Info) bool { return i.Started == 1 })
		for _, order := range []string{
			`"set":{"when":"every 1s","workflow":"flowgen.bulk","queue":"flowgen.admin","input":{"w":{}}}`,
			`"set":{"when":"every 1s","workflow":"test.nightly","queue":""}`,
			`"set":{"when":"every 1s","workflow":"test.nightly","queue":"default","overlap":"none"}`,
			`"declare":{"does":{"when":"every 1s","workflow":"flowgen.hook","queue":"default"},"since":"2100-01-01T00:00:00Z"}`,
			`"change":{"when":"every 1s","catchUp":1}`,
			`"backfill":{"from":"2020-01-02T00:00:00Z","to":"2020-01-01T00:00:00Z"}`,
			`"backfill":{"from":"2020-01-01T00:00:00Z","to":"2020-01-02T00:00:00Z","overlap":"none"}`,
		} {
			w.Forge(own(w), event.ScheduleRun, fmt.Sprintf(`{"at":"2020-01-01T00:00:00Z",%s}`, order))
		}
		_, err := ops.New(w.Client).Schedules().Trigger(w.Ctx, "nightly") // a valid command after the forged ones
		call(t, err)
		after := await(w, "the next trigger", func(i schedule.Info) bool { return i.Started == 2 })
		if len(w.Lines("schedule refuses an order")) != 7 {
			t.Errorf("refused: got %d orders, want 7", len(w.Lines("schedule refuses an order")))
		}
		before.Started, before.Recent, after.Recent = after.Started, nil, nil
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("the schedule has changed (-want +got):\n%s", diff)
		}
	})
}
