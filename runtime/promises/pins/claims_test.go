package pins_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// announced checks that a session claims only from routes that it has in the store.
type announced struct {
	mu     sync.Mutex
	routes map[store.SessionID][]store.Route
	wrong  []store.Route
}

func (a *announced) around(_ context.Context, op string, req any, do func() error) error {
	a.mu.Lock()
	switch req := req.(type) {
	case store.Claim:
		a.check(req)
	case []store.Commit:
		for i := range req {
			if next := req[i].Next; next != nil {
				a.check(*next)
			}
		}
	}
	a.mu.Unlock()
	err := do()
	if o, ok := req.(store.Session); ok && err == nil {
		a.mu.Lock()
		a.routes[o.ID] = o.Routes
		a.mu.Unlock()
	}
	return err
}

func (a *announced) check(c store.Claim) {
	for _, r := range c.Routes {
		if !slices.Contains(a.routes[c.Session], r) {
			a.wrong = append(a.wrong, r)
		}
	}
}

// A commit that gives back a permit claims the run that waits for it. While the commit is in flight,
// the build of the worker is retired. The session keeps its routes until the commit was answered.
func TestOPS10_AClaimByACommitFollowsTheRoutes(t *testing.T) {
	counted := &reads{Store: memstore.New()}
	w := flowtest.NewWorld(t, counted, workflow.ClientConfig{})
	one := limit.New("test.pins.one", limit.Config{AtOnce: 1})
	limited := flowtest.LimitedFlow[int, int]("pins.limited", func(int) []limit.Use { return []limit.Use{one.Use(1)} })
	var routes []store.Route
	for _, name := range []string{limited.Name(), event.HookRun, event.PermitRun, event.ScheduleRun} {
		routes = append(routes, store.Route{Queue: workflow.DefaultQueue, Workflow: name})
	}
	flowtest.Order(t, counted.OpenSession(w.Ctx, store.Session{ID: "b", Worker: "b", TTL: time.Hour, Fingerprint: "b@0", Routes: routes}))
	check := &announced{routes: map[store.SessionID][]store.Route{}}
	waits := flowtest.AStep[int, int]("pins.waits", shim.Policy{})
	commits, left, gate, once := make(chan struct{}), make(chan struct{}), make(chan struct{}), sync.Once{}
	between := &flowtest.Between{Store: counted, Around: func(ctx context.Context, op string, req any, do func() error) error {
		if all, ok := req.([]store.Commit); ok && slices.ContainsFunc(all, func(c store.Commit) bool { return c.Next != nil }) {
			once.Do(func() {
				close(commits)
				<-left
			})
		}
		return check.around(ctx, op, req, do)
	}}
	w.WorkOn(between, worker.Config{Build: "a", Heartbeat: 50 * time.Millisecond}, append(slices.Clone(quick),
		flowtest.As(limited, waits.Call), waits.As(func(ctx context.Context, n int) (int, error) {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			return n, ctx.Err()
		}))...)
	runs := []*workflow.Run[int]{flowtest.Start(w, limited, 1), flowtest.Start(w, limited, 2)}
	w.Eventually("one run holds the permit and the other waits for it", func() bool {
		held, waiting := false, false
		for _, run := range runs {
			info, err := run.Info(w.Ctx)
			flowtest.Order(t, err)
			held, waiting = held || info.Status == workflow.StatusRunning, waiting || len(info.Waits) > 0
		}
		return held && waiting
	})
	close(gate)
	w.Await("the commit that claims", commits)
	retire(w, "a", "")
	w.Eventually("the worker leaves its routes", func() bool { return w.Logs.Count("claims runs of other routes") > 0 })
	seen := counted.fleets.Load()
	w.Eventually("the worker has checked its routes", func() bool { return counted.fleets.Load() >= seen+2 })
	close(left)
	for _, run := range runs {
		flowtest.Result(w, run)
	}
	claimsNothing(w, "a")
	if len(check.wrong) > 0 {
		t.Errorf("claims from routes that the session does not have: %v", check.wrong)
	}
}

// The session of a worker expires during the claim in which its build is retired. The worker then
// opens a session without routes, and claims from none although the claim is repeated.
func TestOPS10_ARepeatedClaimFollowsTheRoutes(t *testing.T) {
	w := flowtest.NewWorld(t, memstore.New(), workflow.ClientConfig{})
	fits(w, "b")
	serving(w, fitting, "b")
	check := &announced{routes: map[store.SessionID][]store.Route{}}
	claims, left, once := make(chan struct{}), make(chan struct{}), sync.Once{}
	between := &flowtest.Between{Store: w.Store, Around: func(ctx context.Context, op string, req any, do func() error) error {
		if c, ok := req.(store.Claim); ok {
			once.Do(func() {
				close(claims)
				<-left
				flowtest.Order(t, w.Store.CloseSession(ctx, c.Partition, c.Session))
			})
		}
		return check.around(ctx, op, req, do)
	}}
	w.WorkOn(between, worker.Config{Build: "a", Heartbeat: 50 * time.Millisecond}, append(slices.Clone(quick),
		flowtest.As(fitting, func(workflow.Context, int) ([]string, error) { return nil, nil }))...)
	w.Await("the first claim", claims)
	retire(w, "a", "")
	w.Eventually("the worker leaves its routes", func() bool { return w.Logs.Count("claims runs of other routes") > 0 })
	close(left)
	claimsNothing(w, "a")
	if len(check.wrong) > 0 {
		t.Errorf("claims from routes that the session does not have: %v", check.wrong)
	}
}

// A process of a retired build is started again, for example by its supervisor.
func TestOPS10_AWorkerOfARetiredBuildBeginsWithoutTheRoutesOfOthers(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		fits(w, "b")
		serving(w, fitting, "b")
		retire(w, "a", "")
		between := &flowtest.Between{Store: w.Store, Around: func(_ context.Context, op string, req any, do func() error) error {
			if c, ok := req.(store.Claim); ok && c.Max > 0 {
				t.Errorf("a claim of %d runs from %d routes", c.Max, len(c.Routes))
			}
			return do()
		}}
		a := w.WorkOn(between, worker.Config{Build: "a", Heartbeat: 50 * time.Millisecond}, append(slices.Clone(quick),
			flowtest.As(fitting, func(workflow.Context, int) ([]string, error) { return nil, nil }), where.As(func(context.Context, int) (string, error) { return "a", nil }))...)
		claimsNothing(w, "a")
		a.Stop()
	})
}

// The workers of the only other build belong to a release that knows no pins: they never look.
func TestOPS10_ARetiredBuildKeepsPinnedRunsThatNoOtherWorkerAdds(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		a := fits(w, "a")
		w.WorkOn(w.Store, worker.Config{Build: "b", Heartbeat: 50 * time.Millisecond}, flowtest.MovesEvery(time.Hour),
			flowtest.As(fitting, func(workflow.Context, int) ([]string, error) { return nil, nil }))
		serving(w, fitting, "a", "b")
		runs := started(w, a, fitting, 3)
		retire(w, "a", "b")
		w.Eventually("the worker leaves its other routes", func() bool { return w.Logs.Count("claims runs of other routes") > 0 })
		advance(w, runs)
		executedBy(w, runs, "a", "a")
		claimsNothing(w, "a")
	})
}
