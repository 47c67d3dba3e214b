package limits_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// job is the input of a workflow with a fairness key.
type job struct {
	Tenant string
	Share  int
}

var shared = shim.NewWorkflow[job, string]("limits.shared", "in", shim.WorkflowPolicy{
	Fair: shim.Fair(func(j job) (string, int) { return j.Tenant, j.Share }),
})

func TestPOOL5_EachFairKeyHasItsShareOfWhatBegins(t *testing.T) {
	flowtest.OnPartitions(t, 1, func(t *testing.T, w *flowtest.World) {
		var order flowtest.Seen[string]
		var started []*workflow.Run[string]
		for _, tenant := range []job{{"acme", 1}, {"bolt", 1}, {"core", 3}} {
			for range 6 {
				started = append(started, flowtest.Start(w, shared, tenant))
			}
		}
		w.Work(worker.Config{Runs: 1}, flowtest.As(shared, func(_ workflow.Context, j job) (string, error) {
			order.Add(j.Tenant)
			return j.Tenant, nil
		}))
		for _, run := range started {
			_ = flowtest.Result(w, run)
		}
		got := map[string]int{}
		for _, tenant := range order.Get()[:10] {
			got[tenant]++
		}
		if diff := cmp.Diff(map[string]int{"acme": 2, "bolt": 2, "core": 6}, got); diff != "" {
			t.Errorf("the first ten, of %v (-want +got):\n%s", order.Get(), diff)
		}
	})
}

func TestPOOL5_WhatARunStartsHasItsFairKeyUnlessItHasItsOwn(t *testing.T) {
	parent := shim.NewWorkflow[job, []workflow.RunID]("limits.sharedparent", "in", shim.WorkflowPolicy{
		Fair: shim.Fair(func(j job) (string, int) { return j.Tenant, j.Share }),
	})
	plain := flowtest.Flow[int, int]("limits.plain")
	remote := flowtest.AStep[int, int]("limits.remote", shim.Policy{Queue: "other"})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{Queues: []string{workflow.DefaultQueue, "other"}},
			flowtest.As(plain, func(_ workflow.Context, n int) (int, error) { return n, nil }),
			flowtest.As(shared, func(_ workflow.Context, j job) (string, error) { return j.Tenant, nil }),
			remote.As(func(_ context.Context, n int) (int, error) { return n, nil }),
			flowtest.As(parent, func(ctx workflow.Context, _ job) ([]workflow.RunID, error) {
				inherits, own := plain.StartChild(ctx, 1), shared.StartChild(ctx, job{"bolt", 2})
				if _, err := inherits.Get(ctx); err != nil {
					return nil, err
				}
				if _, err := own.Get(ctx); err != nil {
					return nil, err
				}
				_, err := remote.Call(ctx, 1)
				return []workflow.RunID{inherits.ID(), own.ID()}, err
			}))
		run := flowtest.Start(w, parent, job{"acme", 3})
		var got []job
		for _, id := range flowtest.Result(w, run) {
			r := w.Record(w.Client.Run(id))
			got = append(got, job{r.Fair, r.Share})
		}
		steps := flowtest.Filter(w.Log(run), event.ChildCreated)
		step := steps[len(steps)-1]
		got = append(got, job{step.Spec.Fair, step.Spec.Share})
		if diff := cmp.Diff([]job{{"acme", 3}, {"bolt", 2}, {"acme", 3}}, got); diff != "" {
			t.Errorf("keys of a child, of one with its own, of a step (-want +got):\n%s", diff)
		}
	})
}

func TestPOOL5_AShareThatIsNoneIsRefused(t *testing.T) {
	flowtest.OnPartitions(t, 1, func(t *testing.T, w *flowtest.World) {
		for _, share := range []int{-1, 0, store.MaxShare + 1} {
			_, err := shared.Start(w.Ctx, w.Client, job{"acme", share})
			if _, invalid := errors.AsType[*workflow.InvalidError](err); !invalid {
				t.Errorf("start with a share of %d: got %v, want an *InvalidError", share, err)
			}
		}
	})
}

func TestPOOL5_APausedAndASlowKeyOfALimitStopNoOtherKey(t *testing.T) {
	const small, many = 12, 24
	page := flowtest.AStep[job, int]("limits.page", shim.Policy{Retry: flowtest.Quick, Uses: shim.Uses(func(a flowtest.StepArgs[job]) []limit.Use {
		return []limit.Use{gpu.Use(1), customer.For(a.In.Tenant).Use(1)}
	})})
	pages := shim.NewWorkflow[job, int]("limits.pages", "in", shim.WorkflowPolicy{
		Fair: shim.Fair(func(j job) (string, int) { return j.Tenant, j.Share }),
	})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		ends := make(chan struct{}) // close(ends) ends the runs of the slow tenant
		w.Work(worker.Config{}, page.As(func(ctx context.Context, j job) (int, error) {
			if j.Tenant == "slow" {
				select {
				case <-ends:
				case <-ctx.Done():
				}
			}
			return j.Share, ctx.Err()
		}), flowtest.As(pages, func(ctx workflow.Context, j job) (int, error) { return page.Call(ctx, j) }))
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		check(ops.New(w.Client).Limits().Pause(w.Ctx, customer.For("big")))
		var others []*workflow.Run[int]
		for range many {
			others = append(others, flowtest.Start(w, pages, job{"big", 1}), flowtest.Start(w, pages, job{"slow", 1}))
		}
		w.Eventually("the pages of the other tenants wait, but for one that is slow", func() bool {
			all, err := ops.New(w.Client).Limits().List(w.Ctx)
			check(err)
			waits := func(key string, n int) bool {
				return slices.ContainsFunc(all, func(l ops.LimitInfo) bool { return l.Key == key && l.Waits == n })
			}
			return waits("big", many) && waits("slow", many-1)
		})
		for range small {
			if got := flowtest.Result(w, flowtest.Start(w, pages, job{"small", 1})); got != 1 {
				t.Errorf("page of the third tenant: got %d, want 1", got)
			}
		}
		close(ends)
		check(ops.New(w.Client).Limits().Resume(w.Ctx, customer.For("big")))
		for _, run := range others {
			_ = flowtest.Result(w, run)
		}
	})
}

func TestPOOL5_NothingButResumeEndsThePauseOfALimit(t *testing.T) {
	flow := shim.NewWorkflow[job, int]("limits.page-whole", "in", shim.WorkflowPolicy{Uses: shim.Uses(func(j job) []limit.Use {
		return []limit.Use{customer.For(j.Tenant).Use(1)}
	})})
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		work := func() {
			w.Work(worker.Config{}, flowtest.As(flow, func(_ workflow.Context, j job) (int, error) { return j.Share, nil }))
		}
		work()
		limits, big := ops.New(w.Client).Limits(), customer.For("big")
		paused := func(what string, config limit.Config) {
			t.Helper()
			all, err := limits.List(w.Ctx)
			i := slices.IndexFunc(all, func(l ops.LimitInfo) bool { return l.Name == big.Name() && l.Key == "big" })
			if err != nil || i < 0 || !all[i].Paused || all[i].Config != config {
				t.Fatalf("%s: got limits %+v, %v; want big paused with %+v", what, all, err, config)
			}
		}
		order := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		w.Eventually("the worker declares its limits", func() bool {
			all, err := limits.List(w.Ctx)
			order(err)
			return slices.ContainsFunc(all, func(l ops.LimitInfo) bool { return l.Name == big.Name() && l.Config.AtOnce == 1 })
		})
		order(limits.Pause(w.Ctx, big))
		run := flowtest.Start(w, flow, job{"big", 7})
		order(limits.Set(w.Ctx, big, limit.Config{AtOnce: 3}))
		paused("set", limit.Config{AtOnce: 3})
		order(limits.Reset(w.Ctx, big))
		paused("reset", limit.Config{AtOnce: 1})
		work() // this worker declares its limits
		paused("declared", limit.Config{AtOnce: 1})
		order(limits.Resume(w.Ctx, big))
		if got := flowtest.Result(w, run); got != 7 {
			t.Errorf("result: got %d, want 7", got)
		}
		all, err := limits.List(w.Ctx)
		order(err)
		for _, l := range all {
			if l.Name == big.Name() && l.Set {
				t.Errorf("got %+v after the resume, want nothing that is set", l)
			}
		}
	})
}
