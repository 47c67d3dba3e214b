package worker_test

import (
	"errors"
	"fmt"
	"math/bits"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

const week = 7 * 24 * time.Hour

func TestRUN13_AFinishedRunIsKeptSevenDaysAndThenNothingOfItIsLeft(t *testing.T) {
	flowtest.OnVirtualTime(t, func(t *testing.T, w *flowtest.World, p *flowtest.Purges) {
		w.Work(worker.Config{}, flowtest.Parks)
		run := flowtest.Start(w, flowtest.Parker, "x", workflow.WithID("order-1"), workflow.WithTags(map[string]string{"customer": "7"}))
		w.Reach(run, event.WaitCreated, 1)
		w.Clock.Advance(30 * 24 * time.Hour) // the run takes longer than its retention
		w.Look(p)
		if err := flowtest.Wake.Send(w.Ctx, run, "up"); err != nil {
			t.Fatal(err)
		}
		flowtest.Result(w, run)

		w.Clock.Advance(week - 2*flowtest.ProbeAtMost)
		w.Look(p)
		if got := flowtest.Result(w, run); got != "up" {
			t.Errorf("result shortly before its time: got %q", got)
		}
		w.Clock.Advance(flowtest.ProbeAtMost)
		w.Look(p)
		left := w.Snapshot()
		want := &store.Snapshot{Now: left.Now, Leases: left.Leases, Wakes: left.Wakes, Limits: left.Limits, Entries: left.Entries} // the limits that the program declares remain
		if diff := cmp.Diff(want, left, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("left behind (-want +got)\n%s", diff)
		}
		for op, find := range map[string]func() error{
			"Result":  func() error { _, err := run.Result(w.Ctx); return err },
			"Info":    func() error { _, err := run.Info(w.Ctx); return err },
			"GetByID": func() error { _, err := flowtest.Parker.GetByID(w.Client, "order-1").Info(w.Ctx); return err },
			"Send":    func() error { return flowtest.Wake.Send(w.Ctx, run, "too late") },
			"Delete":  func() error { return ops.New(w.Client).Delete(w.Ctx, run.ID()) },
		} {
			if err := find(); !errors.Is(err, workflow.ErrRunNotFound) {
				t.Errorf("%s: got %v, want ErrRunNotFound", op, err)
			}
		}
		w.StopWorkers()
		if logged := w.Logs.Count("level=WARN"); logged > 0 {
			t.Errorf("%d warnings were logged", logged)
		}
	})
}

func TestRUN13_RetentionIsThatOfTheWorkflowUnlessTheStartSaysOtherwise(t *testing.T) {
	usual := flowtest.Flow[string, string]("usual")
	brief := shim.NewWorkflow[string, string]("test.brief", "in", shim.WorkflowPolicy{Retention: time.Hour})
	same := func(_ workflow.Context, in string) (string, error) { return in, nil }
	flowtest.OnVirtualTime(t, func(t *testing.T, w *flowtest.World, p *flowtest.Purges) {
		w.Work(worker.Config{}, flowtest.As(usual, same), flowtest.As(brief, same))
		for _, tt := range []struct {
			of           workflow.Definition[string, string]
			opts         []workflow.StartOption
			logged, want time.Duration
		}{
			{usual, nil, 0, week},
			{usual, []workflow.StartOption{workflow.WithRetention(3 * time.Hour)}, 3 * time.Hour, 3 * time.Hour},
			{brief, nil, time.Hour, time.Hour},
			{brief, []workflow.StartOption{workflow.WithRetention(5 * time.Hour)}, 5 * time.Hour, 5 * time.Hour},
			{usual, []workflow.StartOption{workflow.WithRetention(time.Second)}, time.Second, 2 * time.Minute},
		} {
			run := flowtest.Start(w, tt.of, "x", tt.opts...)
			flowtest.Result(w, run)
			if spec := w.Log(run)[0].Spec; spec.Retention != tt.logged {
				t.Errorf("a run of %s with %d options logs a retention of %v, want %v", tt.of.Name(), len(tt.opts), spec.Retention, tt.logged)
			}
			ended := w.Clock.Now()
			w.Clock.Advance(tt.want - flowtest.ProbeAtMost - time.Millisecond)
			w.Look(p)
			if !w.Kept()[run.ID()] {
				t.Errorf("a run of %s with %d options is gone after %v, want %v", tt.of.Name(), len(tt.opts), w.Clock.Now().Sub(ended), tt.want)
			}
			w.Clock.Advance(time.Millisecond)
			w.Look(p)
			if w.Kept()[run.ID()] {
				t.Errorf("a run of %s with %d options is still there after %v, want %v", tt.of.Name(), len(tt.opts), w.Clock.Now().Sub(ended), tt.want)
			}
		}
	})
}

func TestRUN13_ARetentionThatIsNotPositiveIsRefused(t *testing.T) {
	w := flowtest.NewMemory(t)
	for _, d := range []time.Duration{0, -time.Hour} {
		if _, err := flowtest.Echo.Start(w.Ctx, w.Client, "x", workflow.WithRetention(d)); err == nil || !flowtest.ContainsAll(err.Error(), "WithRetention", d.String()) {
			t.Errorf("retention of %v: got error %v", d, err)
		}
	}
	if kept := w.Kept(); len(kept) > 0 {
		t.Errorf("%d runs were started", len(kept))
	}
}

func TestRUN13_ABacklogIsPurgedInOneGo(t *testing.T) {
	flowtest.OnVirtualTime(t, func(t *testing.T, w *flowtest.World, p *flowtest.Purges) {
		w.Work(worker.Config{}, flowtest.Echoes)
		for range 250 { // more runs than two batches hold
			flowtest.Ended(w, "x", workflow.WithRetention(time.Hour))
		}
		w.Clock.Advance(time.Hour)
		w.Look(p)
		if left := len(w.Kept()); left > 0 {
			t.Errorf("%d runs are left", left)
		}
	})
}

func TestRUN13_SeveralWorkersPurgeTogether(t *testing.T) {
	flowtest.OnVirtualTime(t, func(t *testing.T, w *flowtest.World, _ *flowtest.Purges) {
		for range 3 {
			w.Work(worker.Config{}, flowtest.Echoes)
		}
		const runs = 250 // more runs than one batch holds
		for n := range runs {
			flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "x", workflow.WithID(fmt.Sprint("order-", n)), workflow.WithRetention(time.Hour)))
		}
		w.Clock.Advance(time.Hour)
		passUntil(w, "all runs are gone", func() bool { return len(w.Snapshot().Runs) == 0 })
		if left := w.Snapshot(); len(left.LastEnded)+len(left.Purges)+len(left.Seen) > 0 {
			t.Errorf("left behind: %d workflow ids, %d times, %d chains", len(left.LastEnded), len(left.Purges), len(left.Seen))
		}
		w.StopWorkers()
		if logged := w.Logs.Count("purge"); logged > 0 {
			t.Errorf("%d lines were logged about purging", logged)
		}
	})
}

func TestRUN13_AWorkerThatCannotPurgeSaysSoAndTriesAgain(t *testing.T) {
	flowtest.OnVirtualTime(t, func(t *testing.T, w *flowtest.World, p *flowtest.Purges) {
		fails := 2 * w.Store.Partitions()
		p.Fail = int64(fails)
		w.Work(worker.Config{}, flowtest.Echoes)
		run := flowtest.Start(w, flowtest.Echo, "x", workflow.WithRetention(time.Hour))
		flowtest.Result(w, run)
		w.Clock.Advance(time.Hour)
		for range 3 {
			w.Look(p)
		}
		if w.Kept()[run.ID()] {
			t.Error("the run is still there")
		}
		if n, want := w.Logs.Count("struck by lightning"), bits.Len(uint(fails)); n != want { // logged at powers of two
			t.Errorf("%d failures were logged %d times, want %d", fails, n, want)
		}
	})
}

// forgetless is a store that does not support purging.
type forgetless struct{ store.Store }

func TestRUN13_AStoreThatCannotPurgeKeepsEverything(t *testing.T) {
	w := flowtest.NewWorld(t, forgetless{memstore.New()}, workflow.ClientConfig{})
	w.Work(worker.Config{}, flowtest.Echoes)
	run := flowtest.Start(w, flowtest.Echo, "x", workflow.WithRetention(time.Hour))
	flowtest.Result(w, run)
	_, bulk := ops.New(w.Client).DeleteMany(w.Ctx, workflow.Filter{})
	for op, err := range map[string]error{"one": ops.New(w.Client).Delete(w.Ctx, run.ID()), "many": bulk} {
		if !errors.Is(err, workflow.ErrNotSupported) {
			t.Errorf("delete %s: got %v, want ErrNotSupported", op, err)
		}
	}
}

func TestRUN13_AWorkerEndsWithItsStoreAlsoWhileItWaitsToPurge(t *testing.T) {
	clock := storetest.NewClock()
	p := &flowtest.Purges{Store: memstore.NewWith(memstore.Config{Clock: clock}), Virtual: clock}
	w := flowtest.NewWorld(t, p, workflow.ClientConfig{})
	wk := worker.New(w.Client, worker.Config{})
	flowtest.Echoes(wk)
	done := make(chan error, 1)
	go func() { done <- wk.Run(w.Ctx) }()
	w.Eventually("the worker waits for its next purge", p.Armed.Load)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-done:
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("Run returned %v, want store.ErrClosed", err)
		}
	case <-w.Ctx.Done():
		t.Error("Run did not return")
	}
}

// passUntil advances time minute by minute until cond holds.
func passUntil(w *flowtest.World, what string, cond func() bool) {
	w.T.Helper()
	w.Eventually(what, func() bool {
		if cond() {
			return true
		}
		w.Clock.Advance(time.Minute)
		return false
	})
}
