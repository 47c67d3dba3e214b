package pins_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
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
	if c, ok := req.(store.Claim); ok {
		for _, r := range c.Routes {
			if !slices.Contains(a.routes[c.Session], r) {
				a.wrong = append(a.wrong, r)
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
