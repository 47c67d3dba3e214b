package offload_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
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

// moves continues as new with its input, and then sleeps.
var moves = flowtest.Flow[string, string]("moves")

// TestOPS11_ARunThatContinuesAnotherNeedsItsKeyAndItsBlob proves that the input which a run has given to
// the run that continues it blocks the latter if its key or its blob is missing, with an error that names
// it, and that the run continues when both are back.
func TestOPS11_ARunThatContinuesAnotherNeedsItsKeyAndItsBlob(t *testing.T) {
	w := flowtest.NewVirtual(t)
	blobs := flowtest.NewBlobs(w.Clock)
	w.Offload(blobs, large)
	moving := flowtest.As(moves, func(ctx workflow.Context, in string) (string, error) {
		if !strings.HasPrefix(in, "moved ") {
			return "", moves.ContinueAsNew(ctx, "moved "+in)
		}
		workflow.Sleep(ctx, time.Hour)
		return in, nil
	})
	w.Work(worker.Config{}, moving)
	in := text(1, 2*large)
	run := flowtest.Start(w, moves, in)
	next := w.Client.Run(w.Reach(run, event.RunContinued, 1).Next)
	w.Eventually("the run sleeps", func() bool { return w.Parked(next) })
	w.StopWorkers()

	other, err := codec.New(codec.Config{Keys: codec.Keys(flowtest.Key("k2")), Blobs: blobs})
	if err != nil {
		t.Fatal(err)
	}
	stranger := w.With(other)
	stranger.Work(worker.Config{}, moving)
	w.Clock.Advance(time.Hour)
	w.BlockedAs(next, "key k1", "key not found")
	stranger.StopWorkers()

	kept := map[string][]byte{}
	for _, name := range blobs.Names() {
		if kept[name], err = blobs.Get(w.Ctx, name); err != nil {
			t.Fatal(err)
		}
		if err := blobs.Delete(w.Ctx, name); err != nil {
			t.Fatal(err)
		}
	}
	w.Work(worker.Config{}, moving)
	w.Clock.Advance(2 * time.Minute)
	w.Eventually("the run lacks a blob", func() bool {
		info, err := w.Client.Run(next.ID()).Info(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(info.Blocked, "blob "+string(run.ID())+"/") && strings.Contains(info.Blocked, "blob not found: restore the blob")
	})
	for name, data := range kept {
		if err := blobs.Put(w.Ctx, name, data); err != nil {
			t.Fatal(err)
		}
	}
	w.Clock.Advance(2 * time.Minute)
	if got := flowtest.Result(w, run); got != "moved "+in {
		t.Errorf("got %d bytes", len(got))
	}
}
