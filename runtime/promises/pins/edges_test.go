package pins_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/deploy"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	chained = pinnedFlow[int, string]("pins.chained")
	child   = shim.NewWorkflow[int, string]("test.pins.child", "in", shim.WorkflowPolicy{})
	pinKid  = pinnedFlow[int, string]("pins.pinned-child")
	family  = pinnedFlow[int, []string]("pins.family")
	single  = shim.NewWorkflow[int, []string]("test.pins.single-parent", "in", shim.WorkflowPolicy{})
	fragile = pinnedFlow[int, string]("pins.fragile")
	ticked  = pinnedFlow[workflow.None, string]("pins.ticked")
	batched = shim.NewWorkflow[int, string]("test.pins.batched", "in", shim.WorkflowPolicy{
		Pin: true, Collect: shim.Debounce(func(n int) string { return "k" }, 50*time.Millisecond, 0),
	})
	gated = flowtest.AStep[int, string]("pins.gated", shim.Policy{Uses: shim.Uses(func(flowtest.StepArgs[int]) []limit.Use { return []limit.Use{gate.Use(1)} })})
)

var gate = limit.New("test.pins.gate", limit.Config{AtOnce: 5})

// all starts a worker of a build that serves every workflow of this file. The results name the build.
func all(w *flowtest.World, name string, cfg worker.Config, more ...flowtest.Binding) *flowtest.Running {
	w.T.Helper()
	kids := func(ctx workflow.Context, n int) ([]string, error) {
		plain, err := child.Child(ctx, n)
		if err != nil {
			return nil, err
		}
		pinned, err := pinKid.Child(ctx, n)
		if err != nil {
			return nil, err
		}
		detached, err := child.StartChild(ctx, n, workflow.WithParentClose(workflow.ParentCloseAbandon)).Get(ctx)
		if err != nil {
			return nil, err
		}
		step, err := gated.Call(ctx, n)
		return []string{name, plain, pinned, detached, step}, err
	}
	tells := func(workflow.Context, int) (string, error) { return name, nil }
	cfg.Build, cfg.Heartbeat = name, 50*time.Millisecond
	return w.WorkOn(w.Store, cfg, append(append(more, quick...),
		flowtest.As(chained, func(ctx workflow.Context, n int) (string, error) {
			if n > 0 {
				return "", chained.ContinueAsNew(ctx, n-1)
			}
			return name, nil
		}),
		flowtest.As(child, tells), flowtest.As(pinKid, tells), flowtest.As(batched, tells), flowtest.As(family, kids), flowtest.As(single, kids),
		flowtest.As(ticked, func(workflow.Context, workflow.None) (string, error) { return name, nil }),
		flowtest.As(fragile, func(ctx workflow.Context, n int) (string, error) {
			if _, err := where.Call(ctx, n); err != nil {
				return "", err
			}
			return "", errors.New("always fails")
		}),
		where.As(func(context.Context, int) (string, error) { return name, nil }), gated.As(func(context.Context, int) (string, error) { return name, nil }),
	)...)
}

// ramp distributes all new runs to one build.
func ramp(w *flowtest.World, to string) {
	w.T.Helper()
	change(w, func(s *deploy.State) {
		s.Add(to)
		for i := range s.Builds {
			s.Builds[i].Percent = 0
		}
		s.Build(to).Percent = 100
	})
}

// pinOf returns the build to which a run is pinned.
func pinOf(w *flowtest.World, run interface {
	Info(ctx context.Context) (workflow.RunInfo, error)
}) string {
	w.T.Helper()
	info, err := run.Info(w.Ctx)
	flowtest.Order(w.T, err)
	return info.Pin
}

// The process of build a starts everything while all new runs belong to build b.
func TestOPS10_EachKindOfNewRunIsDistributed(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		ramp(w, "b")
		a, b := all(w, "a", worker.Config{}), all(w, "b", worker.Config{})
		serving(w, chained, "a", "b")
		fresh(w, a, b)
		w.Client = a.Client
		check := func(what, got string) {
			t.Helper()
			if got != "b" {
				t.Errorf("%s: executed by build %q, want b", what, got)
			}
		}
		check("start", flowtest.Result(w, flowtest.Start(w, chained, 0)))
		check("delayed start", flowtest.Result(w, flowtest.Start(w, chained, 0, workflow.WithDelay(time.Millisecond))))
		check("start with a workflow ID", flowtest.Result(w, flowtest.Start(w, chained, 0, workflow.WithID("x"), workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.QueueActive}))))
		check("continuation", flowtest.Result(w, flowtest.Start(w, chained, 3)))
		check("shared run", flowtest.Result(w, flowtest.Start(w, batched, 0)))
		many, err := chained.StartMany(w.Ctx, a.Client, []workflow.StartRequest[int]{{}, {}})
		flowtest.Order(t, err)
		for _, one := range many {
			check("bulk start", flowtest.Result(w, one.Run))
		}
		for i, got := range flowtest.Result(w, flowtest.Start(w, family, 0)) {
			check(fmt.Sprint("part ", i, " of a pinned parent"), got)
		}
		check("pinned child of another run", flowtest.Result(w, flowtest.Start(w, single, 0))[2])
		for _, r := range runsOf(w, pinKid.Name()) {
			check("pin of a child", r.Pin)
		}
		failed := flowtest.Start(w, fragile, 0)
		flowtest.Failure(w, failed)
		again, err := failed.Restart(w.Ctx)
		flowtest.Order(t, err)
		check("restart", pinOf(w, again))
		w.Healthy()
	})
}

// fresh waits until the clients of the workers know that new runs belong to build b.
func fresh(w *flowtest.World, by ...*flowtest.Running) {
	w.T.Helper()
	for _, r := range by {
		w.Eventually("the client knows the distribution", func() bool {
			run, err := chained.Start(w.Ctx, r.Client, 0)
			flowtest.Order(w.T, err)
			return pinOf(w, run) == "b"
		})
	}
}

func runsOf(w *flowtest.World, name string) (all []workflow.RunInfo) {
	w.T.Helper()
	for r, err := range w.Client.List(w.Ctx, workflow.Filter{Workflow: name, Queue: workflow.DefaultQueue}) {
		flowtest.Order(w.T, err)
		all = append(all, r)
	}
	if len(all) == 0 {
		w.T.Errorf("no run of %s is listed on its queue", name)
	}
	return all
}

// A retry and a fork continue a log, so they stay on the build that has recorded it while that build
// takes new runs.
func TestOPS10_RetriesStayOnTheBuildOfTheirLog(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		a := all(w, "a", worker.Config{})
		serving(w, fragile, "a")
		w.Client = a.Client
		failed := flowtest.Start(w, fragile, 0)
		flowtest.Failure(w, failed)
		ramp(w, "b")
		b := all(w, "b", worker.Config{})
		serving(w, chained, "b")
		fresh(w, b)
		again, err := b.Client.Run(failed.ID()).Retry(w.Ctx)
		flowtest.Order(t, err)
		if pin := pinOf(w, again); pin != "a" {
			t.Errorf("the retry is pinned to build %q, want a", pin)
		}
		fork, err := b.Client.Run(failed.ID()).Fork(w.Ctx, flowtest.Filter(w.Log(failed), event.StepCreated)[0].Key)
		flowtest.Order(t, err)
		if pin := pinOf(w, fork); pin != "a" {
			t.Errorf("the fork is pinned to build %q, want a", pin)
		}
		restarted, err := b.Client.Run(failed.ID()).Restart(w.Ctx)
		flowtest.Order(t, err)
		if pin := pinOf(w, restarted); pin != "b" {
			t.Errorf("the restart is pinned to build %q, want b", pin)
		}
		_, err = fragile.Get(b.Client, again.ID()).Result(w.Ctx)
		if err == nil {
			t.Error("the retry completed")
		}
		a.Stop()
		w.Eventually("retries are distributed like starts", func() bool {
			last, err := b.Client.Run(again.ID()).Retry(w.Ctx)
			flowtest.Order(t, err)
			return pinOf(w, last) == "b"
		})
	})
}

func TestOPS10_TicksOfASchedulePinTheirRuns(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		ramp(w, "b")
		a, b := all(w, "a", worker.Config{}), all(w, "b", worker.Config{})
		serving(w, ticked, "a", "b")
		fresh(w, a, b)
		w.Client = a.Client
		flowtest.Order(t, ticked.Schedule(w.Ctx, a.Client, "ticks", schedule.Spec{When: "every 1s"}, workflow.None{}))
		w.Eventually("a run of the schedule has completed", func() bool {
			for r, err := range w.Client.List(w.Ctx, workflow.Filter{Workflow: ticked.Name()}) {
				flowtest.Order(t, err)
				if r.Pin != "b" {
					t.Fatalf("the run of a tick is pinned to %q", r.Pin)
				}
				return true
			}
			return false
		})
	})
}

// Config.Pin pins what the client of the worker starts.
func TestOPS10_AWorkerPinsAllRunsOfItsClient(t *testing.T) {
	w := flowtest.NewMemory(t)
	a := all(w, "a", worker.Config{Pin: true})
	all(w, "b", worker.Config{})
	serving(w, child, "a", "b")
	w.Client = a.Client
	run := flowtest.Start(w, child, 0)
	if got := flowtest.Result(w, run); got != "a" || pinOf(w, run) != "a" {
		t.Errorf("executed by build %q and pinned to %q, want a", got, pinOf(w, run))
	}
}

// The first worker of the client pins all runs, and the second one does not.
func TestOPS10_AWorkerPinsAllRunsOnlyUntilItStops(t *testing.T) {
	w := flowtest.NewMemory(t)
	code := flowtest.As(child, func(workflow.Context, int) (string, error) { return "a", nil })
	for i, want := range []string{"a", ""} {
		r := w.Work(worker.Config{Build: "a", Pin: i == 0}, code)
		serving(w, child, "a")
		run := flowtest.Start(w, child, 0)
		if pin := pinOf(w, run); pin != want {
			t.Errorf("worker %d: the run is pinned to build %q, want %q", i+1, pin, want)
		}
		flowtest.Result(w, run)
		r.Stop()
	}
}

// Local starts execute runs that belong to the build of the process, and no others.
func TestOPS10_LocalStartsArePinned(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Near = true
	a := all(w, "a", worker.Config{})
	serving(w, chained, "a")
	w.Client = a.Client
	run := flowtest.Start(w, chained, 0)
	if got := flowtest.Result(w, run); got != "a" || pinOf(w, run) != "a" {
		t.Errorf("executed by build %q and pinned to %q, want a", got, pinOf(w, run))
	}
	ramp(w, "b")
	b := all(w, "b", worker.Config{})
	serving(w, chained, "b")
	fresh(w, a, b)
	run = flowtest.Start(w, chained, 0)
	if got := flowtest.Result(w, run); got != "b" || pinOf(w, run) != "b" {
		t.Errorf("executed by build %q and pinned to %q, want b", got, pinOf(w, run))
	}
}

// A chain moves to the build of new runs when it continues as new.
func TestOPS10_AChainMovesWhenItContinuesAsNew(t *testing.T) {
	w := flowtest.NewMemory(t)
	loop := pinnedFlow[int, string]("pins.loop")
	code := func(name string) flowtest.Binding {
		return flowtest.As(loop, func(ctx workflow.Context, n int) (string, error) {
			if n == 0 {
				return name, nil
			}
			if _, err := onward.Receive(ctx); err != nil {
				return "", err
			}
			return "", loop.ContinueAsNew(ctx, n-1)
		})
	}
	a, b := all(w, "a", worker.Config{}, code("a")), all(w, "b", worker.Config{}, code("b"))
	serving(w, loop, "a", "b")
	run, err := loop.Start(w.Ctx, a.Client, 1)
	flowtest.Order(t, err)
	if pin := pinOf(w, run); pin != "a" {
		t.Fatalf("the run is pinned to build %q, want a", pin)
	}
	ramp(w, "b")
	fresh(w, a, b)
	flowtest.Order(t, onward.Send(w.Ctx, run, 1))
	if got := flowtest.Result(w, run); got != "b" {
		t.Errorf("the continuation was executed by build %q, want b", got)
	}
}

// While the record cannot be read, workers continue with what they have read before. After the repair
// all builds that have workers are in use.
func TestOPS10_ADamagedRecordOfDeploymentsIsRepairedBesideWorkers(t *testing.T) {
	onEveryStoreAndCluster(t, func(t *testing.T, w *flowtest.World) {
		a, _ := fits(w, "a"), fits(w, "b")
		serving(w, fitting, "a", "b")
		runs := started(w, a, fitting, 2)
		entries, _ := store.As[store.Entries](w.Store)
		flowtest.Order(t, entries.WriteEntry(w.Ctx, store.EntryWrite{Entry: store.Entry{Space: store.DeploySpace, Key: "record", Value: []byte(`{"builds":[{"id":"a","percent":"5"}]}`)}}))
		if _, err := fitting.Start(w.Ctx, w.Client, 1); err == nil || !strings.Contains(err.Error(), "flowctl fsck --repair") {
			t.Errorf("start of a pinned run by another program: got error %v", err)
		}
		advance(w, runs)
		executedBy(w, runs, "a", "a")
		if _, repairable := store.As[store.Rebuilder](w.Store); !repairable {
			return // a store in memory
		}
		report, err := fsck.Repair(w.Ctx, w.Store, fsck.Options{By: "test"})
		if err != nil || len(report.Fixes) != 1 || len(report.Remaining) > 0 || !strings.Contains(report.Fixes[0].Findings[0].What, "deploys has") {
			t.Fatalf("repair: %+v, %v", report, err)
		}
		_, err = ops.New(w.Client).Ramp(w.Ctx, map[string]int{"b": 100})
		flowtest.Order(t, err)
		run := flowtest.Start(w, fitting, 1)
		advance(w, []*workflow.Run[[]string]{run})
		executedBy(w, []*workflow.Run[[]string]{run}, "b", "b")
		w.Healthy()
	})
}
