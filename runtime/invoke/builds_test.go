package invoke_test

import (
	"cmp"
	"context"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/invoke"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// pinnedRun starts a run that is pinned to a build.
func pinnedRun(t *testing.T, st store.Store, build string) *workflow.Run[int] {
	t.Helper()
	pins := &flowtest.Between{Store: st, Around: func(_ context.Context, op string, req any, do func() error) error {
		if op == "create" {
			req.([]store.Create)[0].Route.Queue = event.PinnedQueue(workflow.DefaultQueue, build)
		}
		return do()
	}}
	run, err := waits.Start(t.Context(), workflow.NewClient(pins, workflow.ClientConfig{}), 1)
	flowtest.Order(t, err)
	return run
}

// TestOPS7_PinnedRunsOfABuildWithoutFunctionsMove proves that functions of another build execute the
// pinned runs of a build by the rule of workers: not while the functions of the build answer, soon
// after they have disappeared or do not answer, and only if their code fits the log.
func TestOPS7_PinnedRunsOfABuildWithoutFunctionsMove(t *testing.T) {
	changed := flowtest.AStep[int, int]("invoke.changed", shim.Policy{})
	receives := flowtest.As(waits, func(ctx workflow.Context, n int) (int, error) {
		if _, err := addStep.Call(ctx, n); err != nil {
			return 0, err
		}
		return flowtest.Numbers.Receive(ctx)
	})
	misfit := flowtest.As(waits, func(ctx workflow.Context, n int) (int, error) { return changed.Call(ctx, n) })
	for name, c := range map[string]struct {
		after  flowtest.Binding
		gone   bool   // whether the function of the first build answers with an error
		absent bool   // whether a new dispatcher does not have it
		want   string // build that completes the run; empty: it is blocked
	}{
		"the functions answer":        {after: receives, want: "before"},
		"the functions do not answer": {after: receives, gone: true, want: "after"},
		"the functions disappear":     {after: receives, absent: true, want: "after"},
		"no code fits":                {after: misfit, absent: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st := memstore.New()
				client := workflow.NewClient(st, workflow.ClientConfig{})
				var gone atomic.Bool
				var requests atomic.Int64 // for runs
				functions := map[string]http.Handler{}
				function := func(build string, code flowtest.Binding) {
					h, err := invoke.Handler(client, registers(code, add, changed.As(func(_ context.Context, n int) (int, error) { return n, nil })),
						invoke.Config{Secrets: [][]byte{secret}, Worker: worker.Config{Build: build, Pin: true}})
					flowtest.Order(t, err)
					functions[build] = h
				}
				function("before", receives)
				function("after", c.after)
				route := direct{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if gone.Load() && r.URL.Host == "before" {
						http.Error(w, "gone", http.StatusNotFound)
						return
					}
					if !announces(r) {
						requests.Add(1)
					}
					functions[r.URL.Host].ServeHTTP(w, r)
				})}
				serve := func(hosts ...string) (stop func()) {
					var cfg invoke.DispatcherConfig
					cfg.HTTP = &http.Client{Transport: route}
					for _, host := range hosts {
						cfg.Targets = append(cfg.Targets, invoke.Target{URL: "https://" + host, Secret: secret})
					}
					d, err := invoke.NewDispatcher(client, cfg)
					flowtest.Order(t, err)
					ctx, cancel := context.WithCancel(t.Context())
					ended := make(chan error, 1)
					go func() { ended <- d.Run(ctx) }()
					return func() { cancel(); flowtest.Order(t, <-ended) }
				}
				stop := serve("before", "after")
				time.Sleep(time.Second)
				run := pinnedRun(t, st, "before")
				time.Sleep(time.Minute) // The run waits for a message.
				gone.Store(c.gone)
				if c.absent {
					stop()
					stop = serve("after")
				}
				flowtest.Order(t, flowtest.Numbers.Send(t.Context(), run, 5))
				got, err := result(t, run)
				info, failed := run.Info(t.Context())
				flowtest.Order(t, failed)
				by := ""
				for e, err := range run.Events(t.Context()) {
					flowtest.Order(t, err)
					if by = cmp.Or(e.Build, by); e.Seq == info.Events {
						break
					}
				}
				if c.want == "" {
					before := requests.Load()
					time.Sleep(time.Hour)
					if n := requests.Load() - before; info.Status != workflow.StatusBlocked || n > 6 {
						t.Errorf("status %v, and %d requests in an hour, want blocked and one in 10 minutes", info.Status, n)
					}
				} else if err != nil || got != 5 || by != c.want {
					t.Errorf("result %d, %v by build %s, want 5 by %s", got, err, by, c.want)
				}
				stop()
				flowtest.Order(t, client.Close())
				flowtest.Order(t, st.Close())
			})
		})
	}
}

// TestOPS7_ABlockedRunContinuesWhenItsFunctionHasTheKey proves that a run whose data a function could
// not open is offered to it again with the announcement of the missing key, and not before.
func TestOPS7_ABlockedRunContinuesWhenItsFunctionHasTheKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		all, _ := flowtest.WithKeys(t, "k2", "k1")
		own, keys := flowtest.WithKeys(t, "k1")
		starter, client := workflow.NewClient(st, workflow.ClientConfig{Codec: all}), workflow.NewClient(st, workflow.ClientConfig{Codec: own})
		without := workflow.NewClient(st, workflow.ClientConfig{})
		h, err := invoke.Handler(client, registers(order, add), invoke.Config{Secrets: [][]byte{secret}})
		flowtest.Order(t, err)
		var requests atomic.Int64 // for runs
		d, err := invoke.NewDispatcher(without, invoke.DispatcherConfig{
			Targets: []invoke.Target{{URL: "https://function", Secret: secret}},
			HTTP: &http.Client{Transport: direct{http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if !announces(r) {
					requests.Add(1)
				}
				h.ServeHTTP(w, r)
			})}},
		})
		flowtest.Order(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		run, err := orders.Start(t.Context(), starter, 1)
		flowtest.Order(t, err)
		time.Sleep(5 * time.Minute)
		info, err := run.Info(t.Context())
		flowtest.Order(t, err)
		if n := requests.Load(); info.Status != workflow.StatusBlocked || n != 1 {
			t.Errorf("status %v after %d requests in 5 minutes, want blocked after one", info.Status, n)
		}
		keys.Set("k1", "k2")
		if got, err := result(t, run); err != nil || got != 4 {
			t.Errorf("result %d, %v, want 4", got, err)
		}
		cancel()
		flowtest.Order(t, <-ended)
		for _, c := range []*workflow.Client{starter, client, without} {
			flowtest.Order(t, c.Close())
		}
		flowtest.Order(t, st.Close())
	})
}
