package reruns_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestRUN17_ATickOfAScheduleThatFailsIsTriedAgain(t *testing.T) {
	ticks := rerun[int, string]("ticks", hourly)
	flowtest.OnVirtualTimeInPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var s shop
		s.fails.Store(1)
		w.Work(worker.Config{}, append(s.steps(), flowtest.As(ticks, func(ctx workflow.Context, n int) (string, error) {
			tick, _ := workflow.Tick(ctx)
			n, err := order(ctx, n)
			return fmt.Sprintf("%d of %s", n, tick.UTC().Format(time.RFC3339)), err
		}))...)
		flowtest.Order(t, ticks.Schedule(w.Ctx, w.Client, "daily", schedule.Spec{When: "0 0 * * *"}, 1))
		schedules := ops.New(w.Client).Schedules()
		var due time.Time
		w.Eventually("the schedule waits for its tick", func() bool {
			info, err := schedules.Get(w.Ctx, "daily")
			flowtest.Order(t, err)
			r := w.Record(w.Client.Run(info.Run))
			due = r.Due
			return r.QueueState == store.StateParked && due.After(w.Store.Clock().Now())
		})
		w.Clock.Advance(due.Sub(w.Store.Clock().Now()))
		var runs []workflow.RunID
		w.Eventually("the run of the tick has failed", func() bool {
			runs = w.List(workflow.Filter{Workflow: ticks.Name(), Statuses: []workflow.Status{workflow.StatusFailed}})
			return len(runs) > 0
		})
		first := ticks.Get(w.Client, runs[0])
		again := next(w, ticks, first)
		waits(w, again)
		if _, err := schedules.Trigger(w.Ctx, "daily"); err != nil { // triggers a tick while the rerun is the active run of the schedule
			t.Fatal(err)
		}
		w.Eventually("a tick in the delay is skipped", func() bool {
			info, err := schedules.Get(w.Ctx, "daily")
			flowtest.Order(t, err)
			return info.Skipped == 1 && info.Started == 1
		})
		w.Clock.Advance(time.Hour)
		if got, want := flowtest.Result(w, again), "20 of "+due.UTC().Format(time.RFC3339); got != want {
			t.Errorf("result %q, want %q", got, want)
		}
		if s.reserved.Load() != 1 || s.charged.Load() != 2 {
			t.Errorf("reserved %d times, charged %d times, want 1 and 2", s.reserved.Load(), s.charged.Load())
		}
		sound(w)
	})
}

// TestRUN17_APolicyThatIsChangedInTheDelayIsForTheNextFailure proves that a deployment with another
// policy does not change a delayed rerun. The rerun begins at the time that the old policy
// determined. The new policy applies to the failure of the rerun.
func TestRUN17_APolicyThatIsChangedInTheDelayIsForTheNextFailure(t *testing.T) {
	before := rerun[int, int]("changed", hourly)
	for name, tt := range map[string]struct {
		policy workflow.RetryPolicy
		delay  time.Duration // delay of the second rerun; 0 if there is none
		reason string
	}{
		"more and later": {workflow.RetryPolicy{Attempts: 5, Initial: 10 * time.Hour, Max: 10 * time.Hour}, 10 * time.Hour, "rerun 2 of 4 by the policy of its workflow"},
		"fewer":          {workflow.RetryPolicy{Attempts: 2, Initial: time.Minute, Max: time.Minute}, 0, ""},
		"none":           {workflow.RetryPolicy{}, 0, ""},
	} {
		after := rerun[int, int]("changed", tt.policy)
		t.Run(name, func(t *testing.T) {
			flowtest.OnVirtualTimeInPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
				var s shop
				s.fails.Store(2)
				old := w.Work(worker.Config{}, append(s.steps(), flowtest.As(before, order))...)
				again := next(w, before, flowtest.Start(w, before, 1))
				waits(w, again)
				old.Stop()
				due := w.Record(again).Due
				w.Work(worker.Config{}, append(s.steps(), flowtest.As(after, order))...)
				w.Clock.Advance(due.Sub(w.Store.Clock().Now()) - time.Second)
				waits(w, again)
				w.Clock.Advance(time.Second)
				_ = flowtest.Failure(w, again)
				log := w.Log(again)
				if on := flowtest.Filter(log, event.RunResumed); len(on) != 1 || !on[0].Time.Equal(due) {
					t.Errorf("the rerun goes on with %v, want once, at %v", on, due)
				}
				end := &log[len(log)-1]
				if tt.delay == 0 {
					stays(w, again)
					return
				}
				if delay := end.Due.Sub(end.Time); end.Attempt != 2 || delay != tt.delay || end.Reason != tt.reason {
					t.Errorf("the second failure announces rerun %d after %v for %q, want 2 after %v for %q", end.Attempt, delay, end.Reason, tt.delay, tt.reason)
				}
				last := next(w, after, again)
				waits(w, last)
				w.Clock.Advance(tt.delay)
				if got := flowtest.Result(w, last); got != 20 || s.reserved.Load() != 1 || s.charged.Load() != 3 {
					t.Errorf("result %d, reserved %d times, charged %d times, want 20, 1 and 3", got, s.reserved.Load(), s.charged.Load())
				}
				sound(w)
			})
		})
	}
}

// TestRUN17_TheDelayOutlivesOneOfTwoWorkers proves that one of two workers can die while many
// reruns are delayed and receive messages. The other worker and a replacement execute each rerun
// once, at its due time.
func TestRUN17_TheDelayOutlivesOneOfTwoWorkers(t *testing.T) {
	const runs = 20
	d := rerun[int, int]("outlives", hourly)
	flowtest.OnVirtualTimeInPartitions(t, 3, func(t *testing.T, w *flowtest.World) {
		var s shop
		s.fails.Store(runs)
		var mu sync.Mutex
		var dies []func()
		cfg := worker.Config{Heartbeat: 20_000 * time.Hour, ClaimExpiry: 80_000 * time.Hour} // long enough for the jumps of the clock
		fleet := w.Keep(2, cfg, func(die func()) []flowtest.Binding {
			mu.Lock()
			defer mu.Unlock()
			dies = append(dies, die)
			return append(s.steps(), flowtest.As(d, order))
		})
		var reruns []*workflow.Run[int]
		var failed []*workflow.Run[int]
		for range runs {
			failed = append(failed, flowtest.Start(w, d, 1))
		}
		for _, run := range failed {
			reruns = append(reruns, next(w, d, run))
		}
		for _, run := range reruns {
			waits(w, run)
		}
		w.Clock.Advance(30 * time.Minute)
		mu.Lock()
		die := dies[0]
		mu.Unlock()
		for i, run := range reruns { // the messages wake the reruns
			if i == runs/2 {
				go die() // die blocks for ever
			}
			flowtest.Order(t, flowtest.Wake.Send(w.Ctx, run, "up"))
		}
		w.Eventually("a worker was killed", func() bool { return fleet.Deaths.Load() == 1 })
		for _, run := range reruns {
			w.Reach(run, event.MessageReceived, 1)
			waits(w, run)
		}
		if n := s.charged.Load(); n != runs {
			t.Errorf("charged %d times in the delay, want %d", n, runs)
		}
		w.Clock.Advance(30 * time.Minute)
		for _, run := range reruns {
			if got := flowtest.Result(w, run); got != 20 {
				t.Errorf("rerun %s: result %d, want 20", run.ID(), got)
			}
		}
		fleet.Stop()
		if s.reserved.Load() != runs || s.charged.Load() != 2*runs || fleet.Deaths.Load() != 1 {
			t.Errorf("reserved %d times, charged %d times, %d deaths, want %d, %d and 1", s.reserved.Load(), s.charged.Load(), fleet.Deaths.Load(), runs, 2*runs)
		}
		if all := w.List(workflow.Filter{Workflow: d.Name()}); len(all) != 2*runs {
			t.Errorf("there are %d runs, want one rerun of each of %d", len(all), runs)
		}
		sound(w)
	})
}
