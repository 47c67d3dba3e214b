package pins_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	answers = workflow.NewHook[int]("pins.answer")
	guarded = pinnedFlow[string, string]("pins.guarded")
	scarce  = limit.New("test.pins.scarce", limit.Config{AtOnce: 1})
	bounded = shim.NewWorkflow[int, string]("test.pins.bounded", "in", shim.WorkflowPolicy{
		Pin: true, Singleton: shim.Singleton(func(n int) string { return "one" }), Active: workflow.QueueActive,
		Uses: shim.Uses(func(int) []limit.Use { return []limit.Use{scarce.Use(1)} }),
	})
)

// meets starts a worker of a build for runs that hold tokens, permits and keys.
func meets(w *flowtest.World, name string) *flowtest.Running {
	return w.WorkOn(w.Store, worker.Config{Build: name, Heartbeat: 100 * time.Millisecond}, append(append([]flowtest.Binding{}, quick...),
		flowtest.As(guarded, func(ctx workflow.Context, token string) (string, error) {
			h, err := answers.Open(ctx, workflow.Token(token))
			if err != nil {
				return "", err
			}
			_, err = h.Receive(ctx)
			return name, err
		}),
		flowtest.As(bounded, func(ctx workflow.Context, n int) (string, error) {
			if _, err := where.Call(ctx, n); err != nil {
				return "", err
			}
			return name, workflow.Sleep(ctx, 20*time.Millisecond)
		}),
		where.As(func(context.Context, int) (string, error) { return name, nil }))...)
}

// Runs that hold a token or permits for a pinned run are not pinned, and survive its build.
func TestOPS10_TokensAndPermitsSurviveTheBuildOfTheirRun(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		a, b := meets(w, "a"), meets(w, "b")
		serving(w, guarded, "a", "b")
		run, err := guarded.Start(w.Ctx, a.Client, "secret")
		flowtest.Order(t, err)
		w.Eventually("the hook is open", func() bool { return len(runsNamed(w, event.HookRun)) == 1 })
		for _, r := range runsNamed(w, event.HookRun) {
			if r.Pin != "" {
				t.Errorf("the run that holds the token is pinned to %q", r.Pin)
			}
		}
		var lined []*workflow.Run[string]
		for n := range 6 { // they wait for each other, for their permits, and for their builds
			by := []*flowtest.Running{a, b}[n%2]
			one, err := bounded.Start(w.Ctx, by.Client, n)
			flowtest.Order(t, err)
			lined = append(lined, one)
		}
		flowtest.Order(t, run.Pause(w.Ctx))
		a.Stop()
		for _, one := range lined {
			flowtest.Result(w, one)
		}
		flowtest.Order(t, run.Resume(w.Ctx))
		w.Eventually("the hook accepts a payload", func() bool { return answers.Send(w.Ctx, b.Client, "secret", 1) == nil })
		if got := flowtest.Result(w, run); got != "b" {
			t.Errorf("executed by build %q, want b", got)
		}
		w.Healthy()
	})
}

func runsNamed(w *flowtest.World, name string) (all []workflow.RunInfo) {
	w.T.Helper()
	for r, err := range w.Client.List(w.Ctx, workflow.Filter{Workflow: name, Internal: true}) {
		flowtest.Order(w.T, err)
		all = append(all, r)
	}
	return all
}

// A release that knows no builds routes a pinned run to the queue itself, and decodes its log
// without the build.
func TestOPS10_ALogWithAPinFitsTheQueueOfAReleaseWithoutBuilds(t *testing.T) {
	spec := &event.Spec{Workflow: "w", Queue: "q", Pin: "a"}
	if spec.RouteQueue() != "q@build:a" || !spec.OnQueue("q") || !spec.OnQueue("q@build:a") || !spec.OnQueue("q@build:b") || spec.OnQueue("p") {
		t.Errorf("the queue of the route is %q", spec.RouteQueue())
	}
	queue, build := event.SplitQueue(spec.RouteQueue())
	if queue != "q" || build != "a" {
		t.Errorf("split into %q and %q", queue, build)
	}
	w := flowtest.NewMemory(t)
	a := fits(w, "a")
	serving(w, fitting, "a")
	run := started(w, a, fitting, 1)[0]
	snap := w.Snapshot()
	for i := range snap.Runs { // as that release would have created it
		if snap.Runs[i].Run == run.ID() {
			snap.Runs[i].Route.Queue = workflow.DefaultQueue
		}
	}
	for _, f := range fsck.Check(snap) {
		t.Errorf("fsck: %v", f)
	}
}
