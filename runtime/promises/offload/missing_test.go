package offload_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
)

// TestOPS11_AMissingBlobBlocksTheRunUntilItIsBack proves that a run whose blob is missing is blocked
// with the name of the blob and the fix, and continues by itself when the blob is back.
func TestOPS11_AMissingBlobBlocksTheRunUntilItIsBack(t *testing.T) {
	flowtest.OnVirtualTimeAndRedis(t, func(t *testing.T, w *flowtest.World) {
		blobs := flowtest.NewBlobs(w.Clock)
		w.Offload(blobs, large)
		in := text(1, 2*large)
		run, err := children.Start(w.Ctx, w.Client, in)
		if err != nil {
			t.Fatal(err)
		}
		name := blobs.Names()[0]
		data, err := blobs.Get(w.Ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := blobs.Delete(w.Ctx, name); err != nil {
			t.Fatal(err)
		}
		w.Work(worker.Config{}, family()...)
		why := ""
		w.Eventually("the run is blocked", func() bool {
			info, err := w.Client.Run(run.ID()).Info(w.Ctx)
			if err != nil {
				t.Fatal(err)
			}
			why = info.Blocked
			return why != ""
		})
		if !strings.Contains(why, "blob "+name+": blob not found: restore the blob") {
			t.Errorf("the run is blocked because of %q", why)
		}
		w.Clock.Advance(3 * time.Minute)
		if got := w.Record(run).Status; got != "blocked" {
			t.Errorf("the run is %s while the blob is missing", got)
		}
		if err := blobs.Put(w.Ctx, name, data); err != nil {
			t.Fatal(err)
		}
		w.Clock.Advance(2 * time.Minute)
		if got := flowtest.Result(w, run); got != in+text(7, large) {
			t.Errorf("got %d bytes", len(got))
		}
	})
}

// TestOPS11_AWorkerWaitsForBlobsThatCannotBeReached proves that a worker tries again, and blocks no run,
// while the store of the blobs cannot be reached.
func TestOPS11_AWorkerWaitsForBlobsThatCannotBeReached(t *testing.T) {
	flowtest.OnVirtualTimeAndRedis(t, func(t *testing.T, w *flowtest.World) {
		blobs := flowtest.NewBlobs(w.Clock)
		var refused atomic.Int64
		var down atomic.Bool
		outage := func() error {
			if !down.Load() {
				return nil
			}
			refused.Add(1)
			return errors.New("connection refused")
		}
		blobs.OnGet = func(context.Context, string) error { return outage() }
		blobs.OnPut = func(string) error { return outage() }
		w.Offload(blobs, large)
		in := text(1, 2*large)
		run, err := children.Start(w.Ctx, w.Client, in)
		if err != nil {
			t.Fatal(err)
		}
		down.Store(true)
		w.Work(worker.Config{}, family()...)
		w.Eventually("the worker has tried again", func() bool {
			w.Clock.Advance(time.Second)
			return refused.Load() >= 3
		})
		if got := w.Record(run); got.Status == "blocked" {
			t.Errorf("the run is %s", got.Status)
		}
		down.Store(false)
		if got := flowtest.Result(w, run); got != in+text(7, large) {
			t.Errorf("got %d bytes", len(got))
		}
		if n := w.Logs.Count("run is blocked"); n != 0 {
			t.Errorf("%d runs were blocked", n)
		}
		exact(t, w, blobs)
	})
}
