package workflow_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

var hourly = shim.NewWorkflow[string, string]("test.hourly", "in", shim.WorkflowPolicy{})

// notes is a testing.TB that records the logged lines.
type notes struct {
	testing.TB
	mu    sync.Mutex
	lines []string
}

func (n *notes) Log(args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprint(args...))
}

func (n *notes) count(beginning string) (found int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, line := range n.lines {
		if strings.HasPrefix(line, beginning) {
			found++
		}
	}
	return found
}

// setupSchedule sends all kinds of orders to a schedule, at times between the ticks.
func setupSchedule(e *workflowtest.Env) {
	shim.BindWorkflow(e, hourly, func(ctx workflow.Context, in string) (string, error) {
		return in, workflow.Sleep(ctx, time.Minute)
	})
	s := ops.New(e.Client()).Schedules()
	do := func(at time.Duration, f func(ctx context.Context) error) {
		e.At(at, func(ctx context.Context) {
			if err := f(ctx); err != nil {
				panic(err)
			}
		})
	}
	do(150*time.Minute, func(ctx context.Context) error { return s.Pause(ctx, "hourly", "a note") })
	do(215*time.Minute, func(ctx context.Context) error { return s.Resume(ctx, "hourly") })
	do(220*time.Minute, func(ctx context.Context) error {
		from := workflowtest.Epoch.Add(-3 * time.Hour)
		return s.Backfill(ctx, "hourly", schedule.Backfill{From: from, To: from.Add(4 * time.Hour), Overlap: schedule.Allow})
	})
	do(225*time.Minute, func(ctx context.Context) error {
		return s.Update(ctx, "hourly", schedule.Spec{When: "*/30 * * * *", Overlap: schedule.Replace})
	})
	do(290*time.Minute, func(ctx context.Context) error { return s.Delete(ctx, "hourly") })
}

// ticksOf returns the number and the outcomes of the runs of each tick.
func ticksOf(e *workflowtest.Env) any {
	found := map[string]int{}
	for run, err := range e.Client().List(e.Context(), workflow.Filter{Workflow: hourly.Name()}) {
		if err != nil {
			return err
		}
		found[run.Tags[workflow.TagTick]+" "+string(run.Status)]++
	}
	return found
}

func TestPOOL6_AScheduleSurvivesEveryCrash(t *testing.T) {
	c := workflow.NewClient(memstore.New(), workflow.ClientConfig{})
	in, err := workflow.ScheduleInput(c, hourly, "hourly", schedule.Spec{When: "0 * * * *"}, "in")
	if err != nil {
		t.Fatal(err)
	}
	r := workflowtest.CrashEverywhere(t, workflow.ScheduleRuns, in, setupSchedule,
		workflowtest.StartWith(workflow.WithID("schedule:hourly")), workflowtest.State(ticksOf), workflowtest.Pairs(100),
		workflowtest.Check(func(t testing.TB, e *workflowtest.Env, run workflowtest.Outcome) {
			// The ticks at 04:00 and 05:00 start runs. The tick at 06:00 is skipped because of the
			// pause. The backfill has the four ticks from 01:00 to 04:00, the last of which has a
			// run. After the update, the ticks at 07:00 and 07:30 start runs.
			found := ticksOf(e).(map[string]int)
			if len(found) != 2+3+2 || run.Status != workflow.StatusCanceled {
				t.Errorf("the schedule is %s, and its runs are %v", run.Status, found)
			}
			for tick, n := range found {
				if n != 1 {
					t.Errorf("tick %s has %d runs", tick, n)
				}
			}
		}))
	if r.Tried < 100 {
		t.Errorf("tried %d crashes, want at least 100", r.Tried)
	}
}

func TestPOOL6_AScheduleSurvivesCrashesWhileItContinuesAsNew(t *testing.T) {
	c := workflow.NewClient(memstore.New(), workflow.ClientConfig{})
	in, err := workflow.ScheduleInput(c, hourly, "hourly", schedule.Spec{When: "0 * * * *", Overlap: schedule.Allow}, "in")
	if err != nil {
		t.Fatal(err)
	}
	const hours = 130
	workflowtest.CrashEverywhere(t, workflow.ScheduleRuns, in, func(e *workflowtest.Env) {
		shim.BindWorkflow(e, hourly, func(_ workflow.Context, in string) (string, error) { return in, nil })
		e.At(10*time.Minute, func(ctx context.Context) {
			from := workflowtest.Epoch.Add(-hours * time.Hour)
			if err := ops.New(e.Client()).Schedules().Backfill(ctx, "hourly", schedule.Backfill{From: from, To: workflowtest.Epoch}); err != nil {
				panic(err)
			}
		})
		e.At(2*time.Hour, func(ctx context.Context) { _ = ops.New(e.Client()).Schedules().Delete(ctx, "hourly") })
	}, workflowtest.StartWith(workflow.WithID("schedule:hourly")), workflowtest.State(ticksOf), workflowtest.Sample(60), workflowtest.Pairs(20),
		workflowtest.Check(func(t testing.TB, e *workflowtest.Env, _ workflowtest.Outcome) {
			if found := ticksOf(e).(map[string]int); len(found) != hours+2 {
				t.Errorf("%d ticks have runs, want %d", len(found), hours+2)
			}
		}))
}

// TestPOOL6_AScheduleKeepsAnOrderForItsNextRunWhateverCrashes proves that no order is lost if the
// run of the schedule continues as new before it has started all ticks that precede the order.
func TestPOOL6_AScheduleKeepsAnOrderForItsNextRunWhateverCrashes(t *testing.T) {
	c := workflow.NewClient(memstore.New(), workflow.ClientConfig{})
	in, err := workflow.ScheduleInput(c, hourly, "hourly", schedule.Spec{When: "0 * * * *", Overlap: schedule.Allow}, "in")
	if err != nil {
		t.Fatal(err)
	}
	const hours = 130
	in = workflow.Missed(in, workflowtest.Epoch.Add(-(hours-1)*time.Hour))
	workflowtest.CrashEverywhere(t, workflow.ScheduleRuns, in, func(e *workflowtest.Env) {
		shim.BindWorkflow(e, hourly, func(_ workflow.Context, in string) (string, error) { return in, nil })
		e.At(3*time.Hour, func(ctx context.Context) {
			info, err := ops.New(e.Client()).Schedules().Get(ctx, "hourly")
			if err != nil || !info.Paused || info.Started != hours {
				panic(fmt.Sprintf("before the end: %+v, %v", info, err))
			}
			_ = ops.New(e.Client()).Schedules().Delete(ctx, "hourly")
		})
	}, workflowtest.StartWith(workflow.WithID("schedule:hourly"), workflow.PausedFrom(workflowtest.Epoch)),
		workflowtest.State(ticksOf), workflowtest.Sample(60), workflowtest.Pairs(20),
		workflowtest.Check(func(t testing.TB, e *workflowtest.Env, _ workflowtest.Outcome) {
			if found := ticksOf(e).(map[string]int); len(found) != hours {
				t.Errorf("%d ticks have runs, want %d", len(found), hours)
			}
		}))
}

func TestPOOL6_AScheduleThatKnowsNoTickSaysSoAndGoesOnAfterAnUpdate(t *testing.T) {
	noted := &notes{TB: t}
	e := workflowtest.New(noted)
	shim.BindWorkflow(e, hourly, func(_ workflow.Context, in string) (string, error) { return in, nil })
	in, err := workflow.ScheduleInput(e.Client(), hourly, "hourly", schedule.Spec{When: "0 * * * *"}, "in")
	if err != nil {
		t.Fatal(err)
	}
	in = workflow.Unread(in, "0 * * * * Mars/Olympus")
	if _, err := workflow.ScheduleRuns.Start(e.Context(), e.Client(), in, workflow.WithID("schedule:hourly")); err != nil {
		t.Fatal(err)
	}
	s := ops.New(e.Client()).Schedules()
	e.Advance(5 * time.Hour) // the schedule rechecks every hour
	if n := noted.count("WARN schedule has no tick on this machine"); n != 1 {
		t.Errorf("the log says so %d times, want one warning", n)
	}
	info, err := s.Get(e.Context(), "hourly")
	if err != nil || info.Problem == "" || !info.Next.IsZero() || info.Started != 0 {
		t.Errorf("without a zone: got %+v, %v", info, err)
	}
	if err := s.Update(e.Context(), "hourly", schedule.Spec{When: "0 * * * *"}); err != nil {
		t.Fatal(err)
	}
	e.Advance(2 * time.Hour)
	info, err = s.Get(e.Context(), "hourly")
	if err != nil || info.Problem != "" || info.Started != 2 {
		t.Errorf("after an update: got %+v, %v", info, err)
	}
}
