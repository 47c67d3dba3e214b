package limits_test

import (
	"errors"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestPOOL2_ALimitIsConfiguredByItsName proves that a limit found by its name has the same settings
// as the limit's variable, in whatever partition the limit is kept. Each of the two can revert
// settings of the other.
func TestPOOL2_ALimitIsConfiguredByItsName(t *testing.T) {
	flowtest.OnPartitions(t, 5, func(t *testing.T, w *flowtest.World) {
		l := ops.New(w.Client).Limits()
		if _, err := l.Named(w.Ctx, gpu.Name(), ""); !errors.Is(err, ops.ErrLimitNotFound) {
			t.Errorf("before a worker has declared it: %v", err)
		}
		taken := flowtest.Start(w, flowtest.LimitedFlow[int, int]("limits.taken", func(int) []limit.Use { return []limit.Use{gpu.Use(1)} }), 1)
		claimed(t, w, taken.ID(), "limits.taken")
		if _, err := l.Named(w.Ctx, gpu.Name(), ""); !errors.Is(err, ops.ErrLimitNotFound) {
			t.Errorf("before a worker has declared it, although a run has a permit: %v", err)
		}
		limiter, _ := store.As[store.Limiter](w.Store)
		n := w.Store.Partitions()
		for p := range n { // declares the limits, as a worker does when it starts
			if err := limiter.SetLimits(w.Ctx, p, permits.Defaults(p, n)); err != nil {
				t.Fatal(err)
			}
		}
		for _, which := range []limit.Limit{gpu, customer.All(), customer.For("ada"), tenant.All(), tenant.For("ada"), tenant.For("bob"), tenant.For("eve")} {
			named, err := l.Named(w.Ctx, which.Name(), which.Key())
			if err != nil {
				t.Fatal(err)
			}
			if err := named.Set(w.Ctx, limit.Config{AtOnce: 17}); err != nil {
				t.Fatal(err)
			}
			if got := part(t, w, which); !got.Set || got.Config.AtOnce != 17 {
				t.Errorf("%s: got %+v", which, got)
			}
			if err := named.Pause(w.Ctx); err != nil {
				t.Fatal(err)
			}
			if got := part(t, w, which); !got.Paused || got.Config.AtOnce != 17 {
				t.Errorf("%s, paused: got %+v", which, got)
			}
			if err := l.Resume(w.Ctx, which); err != nil {
				t.Fatal(err)
			}
			if got := part(t, w, which); got.Paused || got.Config.AtOnce != 17 {
				t.Errorf("%s, resumed by its variable: got %+v", which, got)
			}
			if err := l.Reset(w.Ctx, which); err != nil {
				t.Fatal(err)
			}
			if got := part(t, w, which); got.Set || got.Config.AtOnce == 17 {
				t.Errorf("%s, reset by its variable: got %+v", which, got)
			}
		}
		for _, name := range []string{"nobody's", memory.Name(), gpu.Name() + "x", gpu.Name()[:len(gpu.Name())-1]} {
			if _, err := l.Named(w.Ctx, name, ""); !errors.Is(err, ops.ErrLimitNotFound) {
				t.Errorf("%s: got %v", name, err)
			}
		}
		if _, err := l.Named(w.Ctx, "", ""); !errors.As(err, new(*store.InvalidError)) {
			t.Errorf("no name: got %v", err)
		}
	})
}

// claimed makes a session without a worker claim a run. Unlike a worker, the session declares no
// limits.
func claimed(t *testing.T, w *flowtest.World, run workflow.RunID, name string) {
	t.Helper()
	route := store.Route{Queue: workflow.DefaultQueue, Workflow: "test." + name}
	s := store.Session{ID: "stranger", Partition: int(run.Slot()) % w.Store.Partitions(), TTL: time.Hour, Routes: []store.Route{route}}
	if err := w.Store.OpenSession(w.Ctx, s); err != nil {
		t.Fatal(err)
	}
	got, err := w.Store.Claim(w.Ctx, store.Claim{Session: s.ID, Partition: s.Partition, Token: event.NewToken(), Routes: s.Routes, Max: 1})
	if err != nil || len(got.Runs) != 1 {
		t.Fatalf("claim: got %+v, %v", got, err)
	}
}

// part returns the state of a limit or of one of its keys. It returns the zero value if the store
// does not list it.
func part(t *testing.T, w *flowtest.World, which limit.Limit) ops.LimitInfo {
	t.Helper()
	all, err := ops.New(w.Client).Limits().List(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range all {
		if i.Name == which.Name() && i.Key == which.Key() {
			return i
		}
	}
	return ops.LimitInfo{}
}
