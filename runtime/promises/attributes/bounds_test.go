package attributes_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// many returns a context with n attributes of the maximum size.
func many(ctx context.Context, n int) context.Context {
	for i := range n {
		ctx = workflow.WithAttribute(ctx, fmt.Sprintf("%0128d", i), strings.Repeat("v", 1024))
	}
	return ctx
}

// invalid contains contexts whose attributes are not valid, and a part of the error.
func invalid(ctx context.Context) map[string]context.Context {
	with := func(k, v string) context.Context { return workflow.WithAttribute(ctx, k, v) }
	return map[string]context.Context{
		"is one of more than 32":             many(ctx, 33),
		"is one of more than 32: set fewer":  many(ctx, 100),
		"key of an attribute \"\" is":        with("", "v"),
		"has 129 bytes":                      with(strings.Repeat("k", 129), "v"),
		"attribute tenant":                   with("tenant", strings.Repeat("v", 1025)),
		"value of attribute baggage":         with("baggage", strings.Repeat("v", 8192)),
		`"k\xff" is not valid UTF-8`:         with("k\xff", "v"),
		`"v\xff" is not valid UTF-8`:         with("k", "v\xff"),
		`"k\x00" holds a zero byte`:          with("k\x00", "v"),
		`"v\x00" holds a zero byte`:          with("k", "v\x00"),
		`"build" is set by`:                  with("build", "v"),
		`"principal" is set by`:              with("principal", "v"),
		`"flowgen.trace" is set by`:          with("flowgen.trace", "v"),
		"is one of more than 32: set fewer,": workflow.WithAttribute(many(ctx, 33), "build", "v"),
	}
}

// waiting returns a run that waits, the token of its hook, and the token of its step's hook.
func waiting(w *flowtest.World) (run *workflow.Run[string], token, outcome string) {
	waits := flowtest.Flow[string, string]("waits")
	w.Work(worker.Config{}, flowtest.As(waits, func(ctx workflow.Context, _ string) (string, error) {
		hook, err := calls.Open(ctx)
		if err != nil {
			return "", err
		}
		flowtest.Token.Set(ctx, hook.Token())
		return finishes.Call(ctx, "")
	}), finishes.As(later))
	run = flowtest.Start(w, waits, "")
	outcome = w.Reach(run, event.StepHookCreated, 1).Token
	w.Reach(run, event.StepPending, 1)
	return run, w.TokenOf(run), outcome
}

// TestEV11_AnInvalidAttributeStoresNothing proves that each operation that creates a run or sends an
// item returns a typed error for attributes that are not valid, and that nothing is stored.
func TestEV11_AnInvalidAttributeStoresNothing(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		run, token, outcome := waiting(w)
		before := w.Log(run)
		for want, ctx := range invalid(w.Ctx) {
			operations := map[string]func() error{
				"start":          func() error { _, err := shows.Start(ctx, w.Client, ""); return err },
				"start and wait": func() error { _, err := shows.Execute(ctx, w.Client, ""); return err },
				"bulk start": func() error {
					_, err := shows.StartMany(ctx, w.Client, []workflow.StartRequest[string]{{}, {}})
					return err
				},
				"send":        func() error { return words.Send(ctx, run, "") },
				"ask":         func() error { _, err := wonders.Ask(ctx, run, ""); return err },
				"hook":        func() error { return calls.Send(ctx, w.Client, token, "") },
				"any hook":    func() error { return w.Client.SendToHook(ctx, token, []byte(`""`)) },
				"hook call":   func() error { _, err := w.Client.CallHook(ctx, token, workflow.HookRequest{}); return err },
				"failed step": func() error { return done.Fail(ctx, w.Client, outcome, flowtest.ErrBusy) },
				"done step":   func() error { return done.Send(ctx, w.Client, outcome, "") },
				"start with a message": func() error {
					_, err := shows.Start(ctx, w.Client, "", workflow.WithMessage(words, ""))
					return err
				},
				"schedule": func() error { return shows.Schedule(ctx, w.Client, "s", schedule.Spec{When: "every 1h"}, "") },
			}
			for what, call := range operations {
				var bad *workflow.InvalidError
				if err := call(); !errors.As(err, &bad) || !strings.Contains(err.Error(), want) || !bad.Permanent() {
					t.Errorf("%s: got %v, want an *InvalidError with %q", what, err, want)
				}
			}
		}
		if got := w.List(workflow.Filter{Internal: true}); len(got) != 1 {
			t.Errorf("the store contains the runs %v, want only %s", got, run.ID())
		}
		if got := w.Inbox(run); got != 0 || !cmp.Equal(before, w.Log(run)) {
			t.Errorf("the run has %d items and the events %v, want none and %v", got, w.Log(run), before)
		}
	})
}

// TestEV11_TheLargestAttributesAreKept proves that a run keeps as many and as large attributes as are
// allowed, and that a valid value replaces one that is not.
func TestEV11_TheLargestAttributesAreKept(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		first := fmt.Sprintf("%0128d", 0)
		ctx := many(workflow.WithAttribute(w.Ctx, first, strings.Repeat("v", 1<<20)), 32)
		run, err := shows.Start(workflow.OnBehalfOf(ctx, strings.Repeat("a", 1024)), w.Client, "")
		flowtest.Order(t, err)
		info, err := run.Info(w.Ctx)
		flowtest.Order(t, err)
		want := map[string]string{"principal": strings.Repeat("a", 1024), "build": info.Attributes["build"]}
		for i := range 32 {
			want[fmt.Sprintf("%0128d", i)] = strings.Repeat("v", 1024)
		}
		if diff := cmp.Diff(want, info.Attributes); diff != "" {
			t.Errorf("attributes (-want +got):\n%s", diff)
		}
	})
}

// TestEV11_CommitsAreBoundedWithTheAttributesOfChildren proves that a commit does not become larger
// than its bound by the attributes that all children inherit.
func TestEV11_CommitsAreBoundedWithTheAttributesOfChildren(t *testing.T) {
	const children, most = 500, 8 << 20
	st := &flowtest.Between{Store: memstore.New()}
	var largest atomic.Int64
	st.Around = func(_ context.Context, _ string, req any, do func() error) error {
		commits, _ := req.([]store.Commit)
		for i := range commits {
			bytes := len(commits[i].Frame)
			for _, s := range commits[i].Send {
				bytes += len(s.Body)
			}
			largest.Store(max(largest.Load(), int64(bytes)))
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	parent := shim.NewWorkflow[int, int]("test.fans.out", "n", shim.WorkflowPolicy{Children: children})
	child := flowtest.Flow[int, int]("fanned.out")
	w.Work(worker.Config{}, flowtest.As(child, func(_ workflow.Context, n int) (int, error) { return n, nil }),
		flowtest.As(parent, func(ctx workflow.Context, n int) (int, error) {
			sum := 0
			all := make([]*workflow.Child[int], n)
			for i := range all {
				all[i] = child.StartChild(ctx, 1)
			}
			for _, c := range all {
				one, err := c.Get(ctx)
				if err != nil {
					return 0, err
				}
				sum += one
			}
			return sum, nil
		}))
	run, err := parent.Start(many(w.Ctx, 32), w.Client, children)
	flowtest.Order(t, err)
	if got := flowtest.Result(w, run); got != children {
		t.Errorf("result: got %d, want %d", got, children)
	}
	if n := largest.Load(); n > most {
		t.Errorf("the largest commit has %d bytes, want at most %d", n, most)
	}
}

// TestEV11_AnOptionalAttributeMakesNoStartFail proves that the attributes of an interceptor are
// omitted, and that the interceptor is notified, where those of the caller leave no room or where they
// are not valid. An optional attribute replaces one with the same key.
func TestEV11_AnOptionalAttributeMakesNoStartFail(t *testing.T) {
	w := flowtest.NewMemory(t)
	var omitted []string
	set := func(ctx context.Context, key, value string) context.Context {
		return workflow.WithOptionalAttribute(ctx, key, value, func() { omitted = append(omitted, key) })
	}
	ctx := set(set(set(w.Ctx, "first", "1"), "long", strings.Repeat("v", 1025)), "flowgen.reserved", "v")
	ctx = workflow.WithAttribute(many(ctx, 30), "tenant", "acme")
	ctx = set(set(ctx, "second", "2"), "tenant", "other")
	ctx = workflow.WithOptionalAttribute(ctx, "third", "3", nil)
	run, err := shows.Start(ctx, w.Client, "")
	if err != nil {
		t.Fatal(err)
	}
	info, err := run.Info(w.Ctx)
	if err != nil {
		t.Fatal(err)
	}
	got := info.Attributes
	if len(got) != 33 || got["first"] != "1" || got["tenant"] != "other" { // 33 with the build
		t.Errorf("%d attributes, first %q and tenant %q, want 33, 1 and other", len(got), got["first"], got["tenant"])
	}
	if diff := cmp.Diff([]string{"long", "flowgen.reserved", "second"}, omitted); diff != "" {
		t.Errorf("omitted attributes (-want +got):\n%s", diff)
	}
}
