package limits_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/limit"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	ocr       = limit.New("test.ocr", limit.Config{AtOnce: 1})
	ocrTenant = limit.NewKeyed[string]("test.ocr-tenant", limit.Config{AtOnce: 1})
)

// TestPOOL4_ARunNamesTheLimitAtWhichItsStepWaits proves that Info and lists explain why a run waits
// whose step uses limits. They name the step, the limit that prevents it from beginning, and the
// first run that waits at this limit.
func TestPOOL4_ARunNamesTheLimitAtWhichItsStepWaits(t *testing.T) {
	scan := flowtest.AStep[string, int]("limits.scan", shim.Policy{Retry: flowtest.Quick, Uses: shim.Uses(func(a flowtest.StepArgs[string]) []limit.Use {
		return []limit.Use{ocr.Use(1), ocrTenant.For(a.In).Use(1)}
	})})
	scans := flowtest.Flow[string, int]("limits.scans")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		busy := make(chan struct{})
		w.Work(worker.Config{}, flowtest.As(scans, func(ctx workflow.Context, tenant string) (int, error) {
			return scan.CallKey(ctx, "page", tenant)
		}), scan.As(func(ctx context.Context, tenant string) (int, error) {
			select {
			case <-busy:
			case <-ctx.Done():
			}
			return 1, ctx.Err()
		}))
		flowtest.Order(t, ops.New(w.Client).Limits().Pause(w.Ctx, ocrTenant.For("big")))
		holder := flowtest.Start(w, scans, "small")
		held(w, "test.ocr", 1)
		first := flowtest.Start(w, scans, "other")
		waits := func(of *workflow.Run[int], want workflow.LimitWait) {
			t.Helper()
			want.Step, want.StepKey = "test.limits.scan", "scans/test.limits.scan[page]"
			same := func(got []workflow.LimitWait) string {
				return cmp.Diff([]workflow.LimitWait{want}, got, cmpopts.IgnoreFields(workflow.LimitWait{}, "Since"))
			}
			diff := "nothing was read"
			defer func() {
				if t.Failed() {
					t.Log(diff)
				}
			}()
			w.Eventually("info names the limit", func() bool {
				info, err := of.Info(w.Ctx)
				diff = same(info.WaitsFor)
				return err == nil && diff == "" && !info.WaitsFor[0].Since.IsZero()
			})
			page, err := w.Client.Page(w.Ctx, workflow.Filter{Workflow: scans.Name(), Waits: true}, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range page.Runs {
				if info.ID == of.ID() {
					if diff = same(info.WaitsFor); diff != "" {
						t.Errorf("the list (-want +got):\n%s", diff)
					}
				}
			}
		}
		waits(first, workflow.LimitWait{Limit: "test.ocr"})
		second := flowtest.Start(w, scans, "third")
		waits(second, workflow.LimitWait{Limit: "test.ocr", Ahead: first.ID()})
		paused := flowtest.Start(w, scans, "big")
		waits(paused, workflow.LimitWait{Limit: "test.ocr-tenant", Key: "big", Paused: true})
		if info, err := holder.Info(w.Ctx); err != nil || len(info.WaitsFor) > 0 {
			t.Errorf("the one that has the permits: %+v, %v, want no waits", info.WaitsFor, err)
		}
		close(busy)
		flowtest.Order(t, ops.New(w.Client).Limits().Resume(w.Ctx, ocrTenant.For("big")))
		for _, run := range []*workflow.Run[int]{holder, first, second, paused} {
			flowtest.Result(w, run)
		}
	})
}

// held waits until n permits of a limit are held.
func held(w *flowtest.World, name string, n int) {
	w.T.Helper()
	w.Eventually("permits are held", func() bool {
		all, err := ops.New(w.Client).Limits().List(w.Ctx)
		for _, l := range all {
			if l.Name == name && l.Held == n {
				return err == nil
			}
		}
		return false
	})
}
