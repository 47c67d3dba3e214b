package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowgen/flowgen/runtime/alert"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// scanned waits until exactly one alert has arrived, and returns it.
func scanned(w *flowtest.World, r *receiver) alert.Alert {
	w.T.Helper()
	passes(w, "the alert arrives", func() bool { return len(r.got()) > 0 })
	during(w, 5*time.Minute) // later scans find the same condition
	w.StopWorkers()
	if r.ids() != 1 {
		w.T.Errorf("alerts: got %+v, want one", r.got())
	}
	return r.got()[0]
}

// lastScan returns the time at which the last scan began.
func lastScan(w *flowtest.World) (at time.Time) {
	w.T.Helper()
	entries, _ := store.As[store.Entries](w.Store)
	found, err := entries.Entries(w.Ctx, store.EntryQuery{Space: store.AlertSpace, Limit: 1})
	flowtest.Order(w.T, err)
	for i := range found {
		var turn struct{ At time.Time }
		flowtest.Order(w.T, json.Unmarshal(found[i].Value, &turn))
		at = turn.At
	}
	return at
}

// onVirtualMemory executes a test on a store whose requests take no time, because passes moves the
// clock while workers work: on a slow store their leases would expire.
func onVirtualMemory(t *testing.T, test func(t *testing.T, w *flowtest.World)) {
	synctest.Test(t, func(t *testing.T) { test(t, flowtest.NewVirtual(t)) })
}

func TestOPS9_AStepThatIsRetriedForLongIsReported(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{}
		slow := flowtest.AStep[int, int]("slowly", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1_000_000, Initial: time.Minute, Max: time.Minute}})
		began := w.Clock.Now()
		w.Work(worker.Config{Alerts: reports(r, alert.Retrying)}, slow.As(func(context.Context, int) (int, error) { return 0, errors.New("busy") }),
			flowtest.As(failing, func(ctx workflow.Context, n int) (int, error) { return slow.Call(ctx, n) }))
		run := flowtest.Start(w, failing, 1)
		got := scanned(w, r)
		if got.Condition != alert.Retrying || got.Run != run.ID() || got.Step != "test.slowly" || got.Time.Sub(began) < alert.DefaultAfter {
			t.Errorf("alert: got %+v, want the retries of %s after %v", got, run.ID(), alert.DefaultAfter)
		}
	})
}

// The test proves that a step which worked for long before its first failure is retried since that
// failure: the alert is about the other run, which has been retried for longer.
func TestOPS9_AStepIsRetriedSinceItsFirstFailureInTheRun(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{}
		ends := make(chan struct{})
		slow := flowtest.AStep[bool, int]("slowly", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1_000_000, Initial: time.Minute, Max: time.Minute}})
		calls := flowtest.Flow[bool, int]("calls")
		w.Work(worker.Config{Alerts: reports(r, alert.Retrying)},
			slow.As(func(ctx context.Context, long bool) (int, error) {
				if long {
					select {
					case <-ends:
					case <-ctx.Done():
					}
				}
				return 0, errors.New("busy")
			}),
			flowtest.As(calls, func(ctx workflow.Context, long bool) (int, error) { return slow.Call(ctx, long) }))
		long := flowtest.Start(w, calls, true)
		during(w, alert.DefaultAfter-time.Minute)
		short := flowtest.Start(w, calls, false)
		w.Reach(short, event.StepRetrying, 1)
		during(w, alert.DefaultAfter-time.Minute)
		close(ends)
		w.Reach(long, event.StepRetrying, 1)
		// Both runs are in one group, and the step of the first one was created earlier.
		if got := scanned(w, r); got.Run != short.ID() {
			t.Errorf("alert: got %+v, want the retries of %s, not of %s", got, short.ID(), long.ID())
		}
	})
}

// ids returns the number of different alerts that a receiver got.
func (r *receiver) ids() int {
	ids := map[workflow.RunID]bool{}
	for _, a := range r.got() {
		ids[a.ID] = true
	}
	return len(ids)
}

// during lets time pass in steps, in which the workers scan and work.
func during(w *flowtest.World, d time.Duration) {
	const step = 10 * time.Second
	for range d / step {
		w.Clock.Advance(step)
		synctest.Wait()
	}
}

// The test proves that a fork and a retry of a reported run which fail in the same way are not
// reported again in the same window.
func TestOPS9_AForkOfAReportedRunIsNotReportedAgain(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{}
		fine := flowtest.AStep[int, int]("fine", shim.Policy{})
		w.Work(worker.Config{Alerts: reports(r, alert.Failed)}, fine.As(func(_ context.Context, n int) (int, error) { return n, nil }),
			flowtest.As(failing, func(ctx workflow.Context, n int) (int, error) {
				n, err := fine.Call(ctx, n)
				return 0, errors.Join(err, fmt.Errorf("no order %d", n))
			}))
		first := flowtest.Start(w, failing, 1)
		flowtest.Failure(w, first)
		passes(w, "the alert arrives", func() bool { return r.ids() == 1 })
		fork, err := first.Fork(w.Ctx, flowtest.Filter(w.Log(first), event.StepCreated)[0].Key)
		flowtest.Order(t, err)
		flowtest.Failure(w, fork)
		retried, err := first.Retry(w.Ctx)
		flowtest.Order(t, err)
		flowtest.Failure(w, retried)
		during(w, 10*time.Minute)
		w.StopWorkers()
		if a := r.got()[0]; r.ids() != 1 || a.Run != first.ID() {
			t.Errorf("alerts: got %+v, want one about %s", r.got(), first.ID())
		}
	})
}

// The test proves that a run waiting for a limit is not reported as waiting for a worker, even if it is
// the retry of a reported run, and that its failure is reported once.
func TestOPS9_ARetriedRunThatWaitsForALimitIsNotReportedAgain(t *testing.T) {
	held := limit.New("held", limit.Config{AtOnce: 1})
	takes := flowtest.LimitedFlow[bool, int]("takes", func(bool) []limit.Use { return []limit.Use{held.Use(1)} })
	topic := workflow.NewTopic[int]("go")
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{}
		w.Work(worker.Config{Alerts: reports(r, alert.Failed, alert.Unserved, alert.Stuck, alert.Retrying, alert.Blocked)},
			flowtest.As(takes, func(ctx workflow.Context, waits bool) (int, error) {
				if waits {
					return topic.Receive(ctx)
				}
				return 0, errors.New("no stock")
			}))
		first := flowtest.Start(w, takes, false)
		flowtest.Failure(w, first)
		passes(w, "the alert arrives", func() bool { return r.ids() == 1 })
		holder := flowtest.Start(w, takes, true)
		w.Status(holder, workflow.StatusWaiting)
		retried, err := first.Retry(w.Ctx)
		flowtest.Order(t, err)
		during(w, 4*alert.DefaultAfter)
		if info, err := retried.Info(w.Ctx); err != nil || info.Status != workflow.StatusPending {
			t.Errorf("the retried run is %s, %v, want pending until its limit is free", info.Status, err)
		}
		flowtest.Order(t, topic.Send(w.Ctx, holder, 1))
		flowtest.Failure(w, retried)
		during(w, 4*alert.DefaultAfter)
		w.StopWorkers()
		if a := r.got()[0]; r.ids() != 1 || a.Run != first.ID() || a.Condition != alert.Failed {
			t.Errorf("alerts: got %+v, want one about %s", r.got(), first.ID())
		}
	})
}

func TestOPS9_ARunThatNoWorkerServesIsReported(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{}
		w.Work(worker.Config{Alerts: reports(r, alert.Unserved, alert.Stuck)}, flowtest.Echoes)
		run := flowtest.Start(w, failing, 1)
		if got := scanned(w, r); got.Condition != alert.Unserved || got.Run != run.ID() || got.Workflow != "test.failing" || got.Queue != "default" {
			t.Errorf("alert: got %+v, want %s as unserved", got, run.ID())
		}
	})
}

// waited checks that an alert arrives about a run that has waited since it was woken, which is now.
func waited(w *flowtest.World, run workflow.RunID) {
	w.T.Helper()
	r, woken := &receiver{}, w.Clock.Now()
	w.Work(worker.Config{Alerts: reports(r, alert.Unserved, alert.Stuck)}, flowtest.Echoes)
	got := scanned(w, r)
	_, text, _ := strings.Cut(got.Message, "a run has waited since ")
	text, _, _ = strings.Cut(text, ",")
	since, err := time.Parse(time.RFC3339, text)
	if err != nil || got.Run != run || since.Before(woken.Truncate(time.Second)) || got.Time.Sub(woken) < alert.DefaultAfter {
		w.T.Errorf("alert: got %+v, want %s after %v from %v", got, run, alert.DefaultAfter, woken)
	}
}

func TestOPS9_ARunThatAMessageWakesHasNotWaitedForAWorkerBefore(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		one := w.Work(worker.Config{}, flowtest.Parks)
		run := flowtest.Start(w, flowtest.Parker, "x")
		w.ReachWaiting(run)
		one.Stop()
		w.Clock.Advance(24 * time.Hour)
		if err := flowtest.Wake.Send(w.Ctx, run, "up"); err != nil {
			t.Fatal(err)
		}
		waited(w, run.ID())
	})
}

func TestOPS9_AStartThatFollowsAnotherRunHasNotWaitedForAWorkerBefore(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		first := flowtest.Start(w, failing, 1, workflow.WithID("a"))
		second := flowtest.Start(w, failing, 2, workflow.WithID("a"), workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.QueueActive}))
		w.Clock.Advance(24 * time.Hour)
		if err := ops.New(w.Client).Terminate(w.Ctx, first.ID(), ""); err != nil {
			t.Fatal(err)
		}
		waited(w, second.ID())
	})
}

func TestOPS9_AStepOfAPausedRunIsNotRetried(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{}
		slow := flowtest.AStep[int, int]("slowly", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1_000_000, Initial: time.Minute, Max: time.Minute}})
		w.Work(worker.Config{Alerts: reports(r, alert.Retrying)}, slow.As(func(context.Context, int) (int, error) { return 0, errors.New("busy") }),
			flowtest.As(failing, func(ctx workflow.Context, n int) (int, error) { return slow.Call(ctx, n) }))
		run := flowtest.Start(w, failing, 1)
		w.Reach(run, event.StepRetrying, 1)
		if err := run.Pause(w.Ctx); err != nil {
			t.Fatal(err)
		}
		w.Status(run, workflow.StatusPaused)
		late := w.Clock.Now().Add(2 * alert.DefaultAfter)
		for range 2 { // the first one ends before the second one begins
			passes(w, "a scan", func() bool { return lastScan(w).After(late) })
			late = lastScan(w)
		}
		if early := alertRuns(w); len(early) > 0 {
			t.Errorf("alerts about the paused run: got %q, want none", early)
		}
		if err := run.Resume(w.Ctx); err != nil {
			t.Fatal(err)
		}
		if got := scanned(w, r); got.Run != run.ID() {
			t.Errorf("alert: got %+v, want the retries of %s", got, run.ID())
		}
	})
}

func TestOPS9_ARunThatWaitsLongForItsWorkersIsReported(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{}
		hang, begun := make(chan struct{}), make(chan struct{})
		long := flowtest.AStep[int, int]("long", shim.Policy{Timeout: 24 * time.Hour})
		w.Work(worker.Config{Alerts: reports(r, alert.Unserved, alert.Stuck), AtOnce: map[string]int{"default": 1}, NoLocalStart: true, Grace: time.Millisecond},
			long.As(func(ctx context.Context, n int) (int, error) {
				if n == 1 {
					close(begun)
				}
				select {
				case <-hang:
				case <-ctx.Done():
				}
				return n, ctx.Err()
			}), flowtest.As(failing, func(ctx workflow.Context, n int) (int, error) { return long.Call(ctx, n) }))
		flowtest.Start(w, failing, 1)
		w.Await("the step", begun)
		flowtest.Start(w, failing, 2)
		passes(w, "the alert arrives", func() bool { return len(r.got()) > 0 })
		close(hang)
		if got := scanned(w, r); got.Condition != alert.Stuck || got.Workflow != "test.failing" {
			t.Errorf("alert: got %+v, want a run of the workflow as stuck", got)
		}
	})
}

func TestOPS9_AScheduleWithoutAWorkerIsReported(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{}
		w.Work(worker.Config{Alerts: reports(r, alert.MissedSchedule), Queues: []string{"other"}}, flowtest.Echoes)
		if err := failing.Schedule(w.Ctx, w.Client, "nightly", schedule.Spec{When: "every 1h"}, 1); err != nil {
			t.Fatal(err)
		}
		if got := scanned(w, r); got.Condition != alert.MissedSchedule || got.Group != "schedule:nightly" || got.Workflow != "test.failing" {
			t.Errorf("alert: got %+v, want the schedule", got)
		}
	})
}

// forgets is a schedule that loses the ticks of an outage.
var forgets = schedule.Spec{When: "every 10m", CatchUp: time.Minute}

// awaitScan waits until scans with the given number of sets of rules have read the schedules.
func awaitScan(w *flowtest.World, rules int) {
	w.T.Helper()
	entries, _ := store.As[store.Entries](w.Store)
	passes(w, "the first scan", func() bool {
		found, err := entries.Entries(w.Ctx, store.EntryQuery{Space: store.AlertSpace, Limit: 10})
		flowtest.Order(w.T, err)
		read := 0
		for _, e := range found {
			if !bytes.Contains(e.Value, []byte(`"missed":null`)) {
				read++
			}
		}
		return read == rules
	})
}

// outage stops the workers and lets an hour pass.
func outage(w *flowtest.World) {
	w.StopWorkers()
	for range 60 {
		w.Clock.Advance(time.Minute)
	}
}

func TestOPS9_ATickThatIsLateIsReported(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		flowtest.Order(t, failing.Schedule(w.Ctx, w.Client, "often", schedule.Spec{When: "every 10s"}, 1))
		serves := w.Work(worker.Config{}, flowtest.As(failing, failsWith("no order %d")))
		passes(w, "the schedule starts a run", func() bool { return len(w.List(workflow.Filter{})) > 0 })
		serves.Stop()
		r := &receiver{}
		w.Work(worker.Config{Alerts: reports(r, alert.MissedSchedule), Queues: []string{"other"}}, flowtest.Echoes)
		if got := scanned(w, r); got.Condition != alert.MissedSchedule || got.Group != "schedule:often" || !strings.Contains(got.Message, "schedule often: the tick of ") || !strings.HasSuffix(got.Message, " is late") {
			t.Errorf("alert: got %+v, want a late tick of the schedule", got)
		}
	})
}

func TestOPS9_TicksThatWereMissedAreReported(t *testing.T) {
	for name, after := range map[string]time.Duration{"with the same rules": 0, "by workers with other rules": 7 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
				r := &receiver{}
				cfg := reports(r, alert.MissedSchedule)
				code := flowtest.As(failing, failsWith("no order %d"))
				flowtest.Order(t, failing.Schedule(w.Ctx, w.Client, "often", forgets, 1))
				w.Work(worker.Config{Alerts: cfg}, code)
				awaitScan(w, 1)
				outage(w)
				if n := len(r.got()); n != 0 {
					t.Fatalf("%d alerts before the outage", n)
				}
				cfg.Rules[0].After = after
				w.Work(worker.Config{Alerts: cfg}, code)
				if got := scanned(w, r); got.Condition != alert.MissedSchedule || got.Group != "schedule:often" || !strings.Contains(got.Message, " ticks were missed because no worker was running") {
					t.Errorf("alert: got %+v, want the missed ticks of the schedule", got)
				}
			})
		})
	}
}

func TestOPS9_MissedTicksOfAScheduleThatIsNewerThanTheLastScanAreReported(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{}
		code := flowtest.As(failing, failsWith("no order %d"))
		w.Work(worker.Config{Alerts: reports(r, alert.MissedSchedule)}, code)
		awaitScan(w, 1)
		w.StopWorkers()
		flowtest.Order(t, failing.Schedule(w.Ctx, w.Client, "often", forgets, 1))
		outage(w)
		w.Work(worker.Config{Alerts: reports(r, alert.MissedSchedule)}, code)
		if got := scanned(w, r); got.Group != "schedule:often" || !strings.Contains(got.Message, " ticks were missed because no worker was running") {
			t.Errorf("alert: got %+v, want the missed ticks of the schedule", got)
		}
	})
}

func TestOPS9_AFailureThatAWorkerWithoutRulesRecordsIsFoundByTheScan(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{}
		w.Work(worker.Config{}, flowtest.As(failing, failsWith("no order %d"))) // the old release of a rolling deployment
		w.Work(worker.Config{Alerts: reports(r, alert.Failed)}, flowtest.Echoes)
		passes(w, "the first scan", func() bool { return !lastScan(w).IsZero() }) // it examines the two minutes before it, and the next ones the time since
		run := flowtest.Start(w, failing, 1)
		flowtest.Failure(w, run)
		if got := scanned(w, r); got.Condition != alert.Failed || got.Run != run.ID() || got.Message != "no order 1" {
			t.Errorf("alert: got %+v, want the failure of %s", got, run.ID())
		}
	})
}

// TestOPS9_AFailureWhileNoWorkerScansIsReported proves that the first scan after a pause of the
// scanning workers finds the runs that others have failed meanwhile.
func TestOPS9_AFailureWhileNoWorkerScansIsReported(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{}
		cfg := worker.Config{Alerts: reports(r, alert.Failed)}
		scans := w.Work(cfg, flowtest.Echoes)
		passes(w, "the first scan", func() bool { return !lastScan(w).IsZero() })
		scans.Stop()
		w.Clock.Advance(10 * time.Minute)
		fails := w.Work(worker.Config{}, flowtest.As(failing, failsWith("no order %d")))
		run := flowtest.Start(w, failing, 1)
		flowtest.Failure(w, run)
		fails.Stop()
		w.Clock.Advance(time.Hour)
		w.Work(cfg, flowtest.Echoes)
		if got := scanned(w, r); got.Condition != alert.Failed || got.Run != run.ID() {
			t.Errorf("alert: got %+v, want the failure of %s", got, run.ID())
		}
	})
}

// TestOPS9_ARunThatFailsByAStepOnAnotherQueueIsReportedOnce proves that the internal run which
// executes the step, and fails first, causes no alert of its own.
func TestOPS9_ARunThatFailsByAStepOnAnotherQueueIsReportedOnce(t *testing.T) {
	away := flowtest.AStep[int, int]("away", shim.Policy{Queue: "away", Retry: workflow.RetryPolicy{Attempts: 1}})
	code := []flowtest.Binding{
		away.As(func(context.Context, int) (int, error) { return 0, errors.New("no stock") }),
		flowtest.As(failing, func(ctx workflow.Context, n int) (int, error) { return away.Call(ctx, n) }),
	}
	queues := []string{"default", "away"}
	for name, with := range map[string]func(r *receiver) []worker.Config{
		"by the commit that ends it": func(r *receiver) []worker.Config {
			return []worker.Config{{Queues: queues, Alerts: reports(r, alert.Failed)}}
		},
		"by a scan": func(r *receiver) []worker.Config {
			return []worker.Config{{Queues: queues}, {Queues: []string{"none"}, Alerts: reports(r, alert.Failed)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
				r := &receiver{}
				for _, cfg := range with(r) {
					w.Work(cfg, code...)
				}
				run := flowtest.Start(w, failing, 1)
				flowtest.Failure(w, run)
				if got := scanned(w, r); got.Condition != alert.Failed || got.Run != run.ID() || got.Workflow != "test.failing" {
					t.Errorf("alert: got %+v, want the failure of %s", got, run.ID())
				}
			})
		})
	}
}

func TestOPS9_ABlockedRunIsReported(t *testing.T) {
	onVirtualMemory(t, func(t *testing.T, w *flowtest.World) {
		r := &receiver{}
		one := w.Work(worker.Config{}, flowtest.Parks)
		run := flowtest.Start(w, flowtest.Parker, "x")
		w.ReachWaiting(run)
		one.Stop()
		w.Work(worker.Config{Alerts: reports(r, alert.Blocked)}, flowtest.As(flowtest.Parker, func(ctx workflow.Context, in string) (string, error) {
			return in, workflow.Sleep(ctx, time.Hour) // other code than before
		}))
		if err := flowtest.Wake.Send(w.Ctx, run, "up"); err != nil {
			t.Fatal(err)
		}
		if got := scanned(w, r); got.Condition != alert.Blocked || got.Run != run.ID() {
			t.Errorf("alert: got %+v, want %s as blocked", got, run.ID())
		}
	})
}
