package offload_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
)

// TestOPS11_BlobsOfALogAreReadAtOnce proves that the blobs of a log are read concurrently, in a
// bounded number.
func TestOPS11_BlobsOfALogAreReadAtOnce(t *testing.T) {
	w := flowtest.NewMemory(t)
	blobs := flowtest.NewBlobs(store.SystemClock)
	w.Offload(blobs, large)
	w.Work(worker.Config{}, passing()...)
	run, err := passes.Start(w.Ctx, w.Client, text(99, *size))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(w.Ctx); err != nil {
		t.Fatal(err)
	}
	var reading, most atomic.Int64
	var opened atomic.Bool
	eight := make(chan struct{})
	blobs.OnGet = func(ctx context.Context, _ string) error {
		n := reading.Add(1)
		defer reading.Add(-1)
		for before := most.Load(); n > before && !most.CompareAndSwap(before, n); before = most.Load() {
		}
		if n == 8 && most.Load() == 8 && opened.CompareAndSwap(false, true) {
			close(eight)
		}
		select {
		case <-eight:
		case <-ctx.Done():
			return ctx.Err()
		}
		return nil
	}
	ctx, cancel := context.WithTimeout(w.Ctx, 20*time.Second)
	defer cancel()
	got, err := w.Client.Store().Load(ctx, []store.Load{{Run: run.ID()}})
	if err != nil || got[0].Err != nil || got[0].Sealed != nil || len(blobs.Names()) != 12 {
		t.Fatalf("%v, %v, %v, %d blobs", err, got[0].Err, got[0].Sealed, len(blobs.Names()))
	}
	if most.Load() != 8 {
		t.Errorf("%d blobs were read at once", most.Load())
	}
}
