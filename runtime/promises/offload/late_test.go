package offload_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/internal/sealed"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
)

// interrupted returns a world whose store calls f once, before a call of the operation is executed
// after which there are at least n blobs. The call is not executed if f returns an error.
func interrupted(t *testing.T, op string, n int, f func(w *flowtest.World, blobs *flowtest.Blobs) error) (*flowtest.World, *flowtest.Blobs) {
	w := flowtest.NewVirtual(t)
	blobs := flowtest.NewBlobs(w.Clock)
	first := true
	w.Store = &flowtest.Between{Store: w.Store, Around: func(_ context.Context, called string, _ any, do func() error) error {
		if called == op && first && len(blobs.Names()) >= n {
			first = false
			if err := f(w, blobs); err != nil {
				return err
			}
		}
		return do()
	}}
	w.Offload(blobs, large)
	return w, blobs
}

// TestOPS11_ACommitAfterALongPauseStoresItsBlobsAgain proves that no blob is missing if a process
// stands still for longer than the grace of blobs between the storage of a blob and the commit that
// refers to it, while other processes sweep.
func TestOPS11_ACommitAfterALongPauseStoresItsBlobsAgain(t *testing.T) {
	for op, n := range map[string]int{"create": 1, "commit": 2} {
		t.Run(op, func(t *testing.T) {
			var swept atomic.Int64
			w, blobs := interrupted(t, op, n, func(w *flowtest.World, blobs *flowtest.Blobs) error {
				before := len(blobs.Names())
				sweeper := sealed.NewSweeper(w.Store, blobs, w.Clock)
				w.Clock.Advance(sealed.Grace + time.Hour)
				pass(t, sweeper)
				w.Clock.Advance(time.Hour)
				pass(t, sweeper)
				swept.Store(int64(before - len(blobs.Names())))
				return nil
			})
			w.Work(worker.Config{}, family()...)
			run, err := children.Start(w.Ctx, w.Client, text(1, 2*large))
			if err != nil {
				t.Fatal(err)
			}
			// A reader between the commit and the repeated storage of the blob finds no blob.
			w.Eventually("the blob is stored again", func() bool { return swept.Load() > 0 && len(blobs.Names()) == n })
			if got := flowtest.Result(w, run); got != text(1, 2*large)+text(7, large) {
				t.Errorf("got %d bytes", len(got))
			}
			if swept.Load() != 1 {
				t.Errorf("the sweep has removed %d blobs, want the one of the commit", swept.Load())
			}
			exact(t, w, blobs)
		})
	}
}

// TestOPS11_ARepeatedCommitRenewsItsBlobs proves that a blob whose first commit was lost, and which is
// old and suspected when the commit is repeated, is not removed.
func TestOPS11_ARepeatedCommitRenewsItsBlobs(t *testing.T) {
	var sweeper *sealed.Sweeper
	w, blobs := interrupted(t, "commit", 2, func(w *flowtest.World, blobs *flowtest.Blobs) error {
		sweeper = sealed.NewSweeper(w.Store, blobs, w.Clock)
		w.Clock.Advance(sealed.Grace + time.Hour)
		pass(t, sweeper)
		w.Clock.Advance(2 * store.Horizon)
		return errors.New("the commit was lost")
	})
	between := w.Store.(*flowtest.Between)
	around, swept := between.Around, false
	between.Around = func(ctx context.Context, called string, req any, do func() error) error {
		if called == "commit" && sweeper != nil && !swept {
			swept = true
			pass(t, sweeper) // the commit was not executed yet
		}
		return around(ctx, called, req, do)
	}
	w.Work(worker.Config{}, family()...)
	run, err := children.Start(w.Ctx, w.Client, text(1, 2*large))
	if err != nil {
		t.Fatal(err)
	}
	if got := flowtest.Result(w, run); got != text(1, 2*large)+text(7, large) || !swept {
		t.Errorf("got %d bytes, swept %v", len(got), swept)
	}
	exact(t, w, blobs)
}
