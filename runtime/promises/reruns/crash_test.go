package reruns_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestRUN17_ThereIsOneRerunWhereverAWorkerDies proves that a failed run has exactly one rerun
// wherever its worker dies. The worker dies before or after each of its commits and creates, and
// another worker continues. The chain of reruns must be linear, and its last run must complete.
func TestRUN17_ThereIsOneRerunWhereverAWorkerDies(t *testing.T) {
	patient := workflow.RetryPolicy{Attempts: 6, Initial: time.Millisecond, Max: time.Second}
	d := rerun[int, int]("mortal", patient)
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		point := 0
		for died := true; died && !t.Failed(); {
			point, died = point+1, false
			for _, executed := range []bool{false, true} {
				died = dies(w, d, point, executed) || died
			}
			if point > 100 {
				t.Fatal("the worker writes more than 100 times for a run")
			}
		}
		if point < 5 { // two creates, two ends, and the beginning of the rerun
			t.Errorf("a worker died at %d points only", point-1)
		}
		for _, f := range w.Check() {
			t.Errorf("fsck: %v", f)
		}
	})
}

// dies executes a run and kills its worker at the worker's write with the number point: after the
// write if executed is set, before it otherwise. dies returns false if the worker makes fewer
// writes.
func dies(w *flowtest.World, d workflow.Definition[int, int], point int, executed bool) bool {
	w.T.Helper()
	var s shop
	s.fails.Store(1)
	var writes atomic.Int64
	var first *flowtest.Running
	made, dead := make(chan struct{}), make(chan struct{})
	st := &flowtest.Between{Store: w.Store, Around: func(_ context.Context, _ string, req any, do func() error) error {
		switch req.(type) {
		case []store.Commit, []store.Create:
		default:
			return do()
		}
		n := writes.Add(1)
		if n > int64(point) || n == int64(point) && !executed {
			return die(n, point, &first, made, dead)
		}
		err := do()
		if n == int64(point) {
			return die(n, point, &first, made, dead)
		}
		return err
	}}
	first = w.WorkOn(st, worker.Config{}, append(s.steps(), flowtest.As(d, order))...)
	close(made)
	run := flowtest.Start(w, d, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		last := run.ID()
		for {
			if _, err := d.Get(w.Client, last).Result(w.Ctx); err == nil || w.Ctx.Err() != nil {
				return
			}
			for w.Record(w.Client.Run(last)).Rerun == "" && w.Ctx.Err() == nil {
				runtime.Gosched()
			}
			last = w.Record(w.Client.Run(last)).Rerun
		}
	}()
	select {
	case <-ended:
		first.Stop()
		return false
	case <-dead:
	}
	first.Stop()
	w.CloseSessions()
	second := w.Work(worker.Config{}, append(s.steps(), flowtest.As(d, order))...)
	w.Await("the last rerun completes", ended)
	second.Stop()
	seen := map[workflow.RunID]bool{}
	for info, err := range w.Client.List(w.Ctx, workflow.Filter{Workflow: d.Name()}) {
		flowtest.Order(w.T, err)
		if info.RetriedAs != "" && seen[info.RetriedAs] {
			w.T.Errorf("point %d: two runs were tried again as %s", point, info.RetriedAs)
		}
		seen[info.RetriedAs] = true
		if again := info.RetriedAs == ""; again != (info.Status == workflow.StatusCompleted) {
			w.T.Errorf("point %d, executed %t: run %s is %s, and tried again as %q", point, executed, info.ID, info.Status, info.RetriedAs)
		}
	}
	return true
}

// die kills the worker if n is the number of the write at which it must die. It returns an error
// for the write in any case.
func die(n int64, point int, first **flowtest.Running, made <-chan struct{}, dead chan struct{}) error {
	<-made
	if n == int64(point) {
		(*flow.Registry)((*first).Registry()).Kit().Kill()
		(*first).Halt()
		close(dead)
	}
	return store.ErrClosed
}
