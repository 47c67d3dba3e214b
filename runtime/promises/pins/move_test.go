package pins_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/internal/deploy"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// quick makes a worker look often.
var quick = []flowtest.Binding{flowtest.MovesEvery(50 * time.Millisecond), flowtest.ProbeEvery(100 * time.Millisecond)}

var fitting = pinnedFlow[int, []string]("pins.fitting")

// fits starts a worker of a build whose code of fitting matches the logs of all other builds.
func fits(w *flowtest.World, name string, more ...flowtest.Binding) *flowtest.Running {
	w.T.Helper()
	code := flowtest.As(fitting, func(ctx workflow.Context, n int) ([]string, error) {
		first, err := where.Call(ctx, n)
		if err != nil {
			return nil, err
		}
		if _, err := onward.Receive(ctx); err != nil {
			return nil, err
		}
		second, err := where.Call(ctx, n)
		return []string{first, second}, err
	})
	step := where.As(func(context.Context, int) (string, error) { return name, nil })
	return w.WorkOn(w.Store, worker.Config{Build: name, Heartbeat: 50 * time.Millisecond}, append(append(more, quick...), code, step)...)
}

// retire retires a build.
func retire(w *flowtest.World, name, to string) {
	w.T.Helper()
	change(w, func(s *deploy.State) { s.Add(name).Retired, s.Add(name).To = w.Store.Clock().Now(), to })
}

func change(w *flowtest.World, f func(*deploy.State)) {
	w.T.Helper()
	entries, ok := store.As[store.Entries](w.Store)
	if !ok {
		w.T.Fatal("the store keeps no entries")
	}
	_, err := deploy.Update(w.Ctx, entries, func(s *deploy.State) error {
		f(s)
		return nil
	})
	flowtest.Order(w.T, err)
}

// started starts runs on the client of a worker and waits until they wait for a message.
func started(w *flowtest.World, by *flowtest.Running, d workflow.Definition[int, []string], n int) (runs []*workflow.Run[[]string]) {
	w.T.Helper()
	for i := range n {
		run, err := d.Start(w.Ctx, by.Client, i)
		flowtest.Order(w.T, err)
		w.ReachWaiting(run)
		runs = append(runs, run)
	}
	return runs
}

func executedBy(w *flowtest.World, runs []*workflow.Run[[]string], first, second string) {
	w.T.Helper()
	for _, run := range runs {
		if got := flowtest.Result(w, run); got[0] != first || got[1] != second {
			w.T.Errorf("run %s: got %v, want %s and %s", run.ID(), got, first, second)
		}
	}
}

func advance(w *flowtest.World, runs []*workflow.Run[[]string]) {
	w.T.Helper()
	for _, run := range runs {
		flowtest.Order(w.T, onward.Send(w.Ctx, run, 1))
	}
}

func TestOPS10_PinnedRunsOfABuildWithoutWorkersMoveToAnotherBuild(t *testing.T) {
	onEveryStoreAndCluster(t, func(t *testing.T, w *flowtest.World) {
		a, b := fits(w, "a"), fits(w, "b")
		serving(w, fitting, "a", "b")
		runs := started(w, a, fitting, 5)
		stays := started(w, b, fitting, 1)
		a.Stop()
		advance(w, runs)
		advance(w, stays)
		executedBy(w, runs, "a", "b")
		executedBy(w, stays, "b", "b")
		w.Healthy()
	})
}

// The error of a run whose build has no workers names the build and the two ways out.
func TestOPS10_TheErrorOfAnUnservedPinnedRunNamesItsBuild(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		a, _ := build(w, "a"), build(w, "b", flowtest.MovesEvery(time.Hour))
		serving(w, ordered, "a", "b")
		run := started(w, a, ordered, 1)[0]
		a.Stop()
		advance(w, []*workflow.Run[[]string]{run})
		w.Eventually("the error names build a", func() bool {
			short, cancel := context.WithTimeout(w.Ctx, 20*time.Millisecond)
			defer cancel()
			_, err := run.Result(short)
			return errors.Is(err, workflow.ErrRunUnserved) && errors.Is(err, context.DeadlineExceeded) &&
				flowtest.ContainsAll(err.Error(), "pinned to build a:", `"test.pins.ordered"`, `queue "default"`, "start one", "flowctl deploys retire a")
		})
	})
}

// alarms is a clock that counts the alarms that were set for a duration.
type alarms struct {
	*storetest.Clock
	of  time.Duration
	set atomic.Int64
}

func (a *alarms) AfterFunc(d time.Duration, f func()) (stop func() bool) {
	stop = a.Clock.AfterFunc(d, f)
	if d == a.of {
		a.set.Add(1)
	}
	return stop
}

// While the workers of a build restart, its runs wait for them.
func TestOPS10_PinnedRunsStayDuringARestart(t *testing.T) {
	clock := &alarms{Clock: storetest.NewClock(), of: time.Hour + time.Second}
	counted := &reads{Store: memstore.NewWith(memstore.Config{Clock: clock})}
	w := flowtest.NewWorld(t, counted, workflow.ClientConfig{})
	w.Clock = clock.Clock
	a, _ := build(w, "a", flowtest.MovesEvery(1000*time.Hour)), build(w, "b", flowtest.MovesEvery(clock.of))
	serving(w, ordered, "a", "b")
	runs := started(w, a, ordered, 3)
	a.Stop()
	checks := int64(0)
	looks := func() {
		t.Helper()
		checks++
		w.Eventually("the worker of build b waits for its next check", func() bool { return clock.set.Load() >= checks })
		seen := counted.fleets.Load()
		clock.Advance(clock.of)
		w.Eventually("the worker of build b has checked", func() bool { return counted.fleets.Load() > seen })
	}
	const moves = "the worker claims runs of other routes"
	looks()
	looks() // the result of the first check has been applied before the second one begins
	if n := w.Logs.Count(moves); n > 0 {
		t.Error("build b takes the runs as soon as build a has no worker")
	}
	looks()
	w.Eventually("build b takes the runs", func() bool { return w.Logs.Count(moves) > 0 })
	advance(w, runs)
	build(w, "a")
	executedBy(w, runs, "a", "a")
}

func TestOPS10_PinnedRunsOfARetiredBuildMoveWhileItsWorkersLive(t *testing.T) {
	onEveryStoreAndCluster(t, func(t *testing.T, w *flowtest.World) {
		a, _, c := fits(w, "a"), fits(w, "b"), fits(w, "c")
		serving(w, fitting, "a", "b", "c")
		runs := started(w, a, fitting, 5)
		retire(w, "a", "c")
		claimsNothing(w, "a")
		advance(w, runs)
		executedBy(w, runs, "a", "c")
		for _, by := range []*flowtest.Running{a, c} { // a start by a process of the retired build gets another one as well
			w.Eventually("the client has read that the build is retired", func() bool {
				run, err := fitting.Start(w.Ctx, by.Client, 1)
				flowtest.Order(t, err)
				info, err := run.Info(w.Ctx)
				flowtest.Order(t, err)
				return info.Pin == "b" || info.Pin == "c"
			})
		}
		w.Healthy()
	})
}

// claimsNothing waits until the sessions of a build have no routes.
func claimsNothing(w *flowtest.World, name string) {
	w.T.Helper()
	teller, _ := store.As[store.FleetTeller](w.Store)
	w.Eventually("the workers of build "+name+" claim nothing", func() bool {
		fleet, err := teller.Fleet(w.Ctx)
		flowtest.Order(w.T, err)
		live := 0
		for _, s := range fleet.Sessions {
			if len(s.Fingerprint) > len(name) && s.Fingerprint[:len(name)+1] == name+"@" {
				if live++; len(s.Routes) > 0 {
					return false
				}
			}
		}
		return live > 0
	})
}

// The code of no other build fits the runs, so they return to the retired build.
func TestOPS10_ARetiredBuildFinishesTheRunsThatNoOtherBuildAccepts(t *testing.T) {
	onEveryStoreAndCluster(t, func(t *testing.T, w *flowtest.World) {
		a, _ := build(w, "a", quick...), build(w, "b", quick...)
		serving(w, ordered, "a", "b")
		runs := started(w, a, ordered, 5)
		retire(w, "a", "")
		claimsNothing(w, "a")
		advance(w, runs)
		executedBy(w, runs, "a", "a")
		w.Healthy()
	})
}

// The worker of a retired build to which blocked runs return claims only as many as it has slots for.
func TestOPS10_ARetiredBuildClaimsOnlyRunsForWhichItHasSlots(t *testing.T) {
	const most = 2
	w := flowtest.NewMemory(t)
	var owned flowtest.Seen[int]
	count := func(context.Context, int) (string, error) {
		n := 0
		for _, r := range w.Snapshot().Runs {
			if strings.HasPrefix(string(r.Owner), "few slots/") {
				n++
			}
		}
		owned.Add(n)
		return "a", nil
	}
	a := w.WorkOn(w.Store, worker.Config{Build: "a", Name: "few slots", Runs: most}, append(quick, orderedBy("a"), where.As(count))...)
	build(w, "b", quick...)
	serving(w, ordered, "a", "b")
	runs := started(w, a, ordered, 20)
	retire(w, "a", "")
	claimsNothing(w, "a")
	advance(w, runs)
	executedBy(w, runs, "a", "a")
	if got := slices.Max(owned.Get()); got > most {
		t.Errorf("the worker has owned %d runs, and has slots for %d", got, most)
	}
}

// The only build that serves a workflow claims its runs although it is retired.
func TestOPS10_ARetiredBuildServesWhatNoOtherBuildServes(t *testing.T) {
	counted := &reads{Store: memstore.New()}
	w := flowtest.NewWorld(t, counted, workflow.ClientConfig{})
	a := fits(w, "a", flowtest.As(plainFlow, func(workflow.Context, int) (string, error) { return "a", nil }))
	serving(w, fitting, "a")
	runs := started(w, a, fitting, 2)
	retire(w, "a", "")
	seen := counted.fleets.Load()
	w.Eventually("the worker has checked its routes", func() bool { return counted.fleets.Load() >= seen+3 }) // the first check may have begun before the change
	advance(w, runs)
	executedBy(w, runs, "a", "a")
	flowtest.Result(w, flowtest.Start(w, plainFlow, 0))
}

// The only live build is retired. It executes the runs of a build that has left, which no other build
// could continue.
func TestOPS10_ARetiredBuildTakesTheRunsOfABuildThatHasLeft(t *testing.T) {
	w := flowtest.NewMemory(t)
	a, _ := fits(w, "a"), fits(w, "b")
	serving(w, fitting, "a", "b")
	runs := started(w, a, fitting, 2)
	retire(w, "b", "")
	claimsNothing(w, "b")
	a.Stop()
	advance(w, runs)
	executedBy(w, runs, "a", "b")
}

// plainFlow has runs that are not pinned.
var plainFlow = shim.NewWorkflow[int, string]("test.pins.plain", "in", shim.WorkflowPolicy{})

func TestOPS10_ARetiredBuildClaimsNoRunsThatAreNotPinned(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		run := func(name string) *flowtest.Running {
			return w.WorkOn(w.Store, worker.Config{Build: name, Heartbeat: 50 * time.Millisecond}, append(slices.Clone(quick),
				flowtest.As(plainFlow, func(workflow.Context, int) (string, error) { return name, nil }))...)
		}
		run("a")
		b := run("b")
		serving(w, plainFlow, "a", "b")
		retire(w, "a", "")
		claimsNothing(w, "a")
		for n := range 30 {
			r, err := plainFlow.Start(w.Ctx, b.Client, n)
			flowtest.Order(t, err)
			if got := flowtest.Result(w, r); got != "b" {
				t.Fatalf("run %d was executed by build %s", n, got)
			}
		}
	})
}

// onEveryStoreAndCluster executes a test on the stores of OnEveryStore and on a Redis Cluster.
func onEveryStoreAndCluster(t *testing.T, test func(t *testing.T, w *flowtest.World)) {
	flowtest.OnEveryStore(t, test)
	flowtest.OnCluster(t, 3, test)
}
