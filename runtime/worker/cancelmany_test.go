package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestRUN8_RunsThatAreCanceledTogetherEndAsEachWouldAlone proves that canceling many runs in one
// call has the same effect as canceling each run. A run that has not begun and that no worker
// serves ends at once. Other runs receive a cancel. Each error contains the index of its run.
func TestRUN8_RunsThatAreCanceledTogetherEndAsEachWouldAlone(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		begun := make(chan int, 1)
		code := flowtest.Work1.As(func(ctx context.Context, n int) (int, error) {
			begun <- n
			<-ctx.Done()
			return 0, ctx.Err()
		})
		first := w.Work(worker.Config{}, flowtest.Calls, code)
		working := flowtest.Start(w, flowtest.One, 1)
		<-begun
		ended := flowtest.Start(w, flowtest.One, 2)
		<-begun
		flowtest.Order(t, ops.New(w.Client).Terminate(w.Ctx, ended.ID(), "enough"))
		var runs []workflow.RunID
		var fresh []*workflow.Run[int]
		for i := range 250 { // more runs than one batch holds
			var opts []workflow.StartOption
			if i%2 == 0 {
				opts = append(opts, workflow.WithHold())
			}
			fresh = append(fresh, flowtest.Start(w, killerFlow, i, opts...))
			runs = append(runs, fresh[i].ID())
		}
		const nobody workflow.RunID = "wrun_00000000000000000000000000"
		runs = append(runs, working.ID(), ended.ID(), nobody, runs[0])
		errs := ops.New(w.Client).CancelMany(w.Ctx, "together", runs...)
		if len(errs) != len(runs) {
			t.Fatalf("got %d errors for %d runs", len(errs), len(runs))
		}
		for i, err := range errs {
			switch runs[i] {
			case ended.ID():
				if !errors.Is(err, workflow.ErrRunTerminal) {
					t.Errorf("of a run that has ended: %v", err)
				}
			case nobody:
				if !errors.Is(err, workflow.ErrRunNotFound) {
					t.Errorf("of no run: %v", err)
				}
			default:
				flowtest.Order(t, err)
			}
		}
		infos, errs := w.Client.Infos(w.Ctx, runs...)
		for i := range infos {
			switch {
			case runs[i] == nobody:
				if !errors.Is(errs[i], workflow.ErrRunNotFound) || infos[i].ID != "" {
					t.Errorf("got %+v, %v of no run", infos[i], errs[i])
				}
			case errs[i] != nil || infos[i].ID != runs[i]:
				t.Errorf("got %+v, %v of run %s", infos[i], errs[i], runs[i])
			case runs[i] != working.ID() && infos[i].Status != workflow.StatusCanceled:
				t.Errorf("run %s is %s", runs[i], infos[i].Status)
			}
		}
		for _, r := range append(fresh, working) {
			if e := flowtest.Failure(w, r); e.Status != workflow.StatusCanceled || !strings.Contains(e.Error(), "together") {
				t.Errorf("got %v", e)
			}
		}
		first.Stop()
		if leases := w.Snapshot().Leases; len(leases) != 0 {
			t.Errorf("the client has left sessions behind: %v", leases)
		}
	})
}

func TestRUN8_CancelingManyRunsRefusesWhatNoRunTakes(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		run := flowtest.Start(w, killerFlow, 1)
		for _, reason := range []string{strings.Repeat("x", store.MaxReason+1), "\xff"} {
			errs := ops.New(w.Client).CancelMany(w.Ctx, reason, run.ID(), run.ID())
			for _, err := range errs {
				if _, invalid := errors.AsType[*workflow.InvalidError](err); !invalid {
					t.Errorf("got %v for a reason that no log takes", err)
				}
			}
		}
		if len(ops.New(w.Client).CancelMany(w.Ctx, "nothing")) != 0 {
			t.Error("of no runs there are errors")
		}
		infos, errs := w.Client.Infos(w.Ctx)
		if len(infos)+len(errs) != 0 {
			t.Errorf("of no runs: %v, %v", infos, errs)
		}
		w.Status(run, workflow.StatusPending)
		gone, cancel := context.WithCancel(w.Ctx)
		cancel()
		for what, errs := range map[string][]error{"cancel": ops.New(w.Client).CancelMany(gone, "", run.ID()), "infos": second(w.Client.Infos(gone, run.ID()))} {
			if got := fmt.Sprint(errs); len(errs) != 1 || errs[0] == nil {
				t.Errorf("%s under a context that has ended: %s", what, got)
			}
		}
	})
}

func second(_ []workflow.RunInfo, errs []error) []error { return errs }
