package offload_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/internal/sealed"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	makes  = flowtest.AStep[int, string]("makes", shim.Policy{})
	breaks = flowtest.AStep[string, string]("breaks", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}})
	copied = flowtest.Flow[string, string]("copied")
	waits  = flowtest.Flow[string, string]("waits")
	loops  = flowtest.Flow[string, string]("loops")
)

// copying binds the workflows of this file. The step breaks fails while broken is set.
func copying(broken *atomic.Bool) []flowtest.Binding {
	return []flowtest.Binding{
		makes.As(func(_ context.Context, seed int) (string, error) { return text(seed, 2*large), nil }),
		breaks.As(func(_ context.Context, in string) (string, error) {
			if broken.Load() {
				return "", errors.New("broken")
			}
			return "mended" + in, nil
		}),
		flowtest.As(copied, func(ctx workflow.Context, in string) (string, error) {
			got, err := makes.Call(ctx, 1)
			if err != nil {
				return "", err
			}
			return breaks.Call(ctx, in+got)
		}),
		flowtest.As(waits, func(ctx workflow.Context, in string) (string, error) {
			workflow.Sleep(ctx, 60*time.Hour)
			note, err := news.Receive(ctx)
			return in + note, err
		}),
		flowtest.As(loops, func(ctx workflow.Context, in string) (string, error) {
			if strings.HasPrefix(in, "xxx") {
				note, err := news.Receive(ctx)
				return in + note, err
			}
			got, err := makes.Call(ctx, len(in))
			if err != nil {
				return "", err
			}
			return "", loops.ContinueAsNew(ctx, "x"+in[:min(len(in), 3)]+got)
		}),
	}
}

// TestOPS11_BlobsThatRunsNeedStay proves that a sweep keeps the blobs of delayed starts and of messages
// that were not received, and that reruns need no blob of the runs that they repeat.
func TestOPS11_BlobsThatRunsNeedStay(t *testing.T) {
	flowtest.OnVirtualTimeAndRedis(t, func(t *testing.T, w *flowtest.World) {
		blobs := flowtest.NewBlobs(w.Clock)
		w.Offload(blobs, large)
		var broken atomic.Bool
		broken.Store(true)
		w.Work(worker.Config{}, copying(&broken)...)
		in := text(50, 2*large)
		start := func(d workflow.Definition[string, string], opts ...workflow.StartOption) *workflow.Run[string] {
			run, err := d.Start(w.Ctx, w.Client, in, opts...)
			if err != nil {
				t.Fatal(err)
			}
			return run
		}
		delayed, waiting, failed := start(copied, workflow.WithDelay(60*time.Hour)), start(waits), start(copied)
		if err := news.Send(w.Ctx, waiting, text(51, 2*large)); err != nil {
			t.Fatal(err)
		}
		flowtest.Failure(w, failed)
		broken.Store(false)
		var reruns []*workflow.Run[string]
		for _, again := range []func() (*workflow.Run[string], error){
			func() (*workflow.Run[string], error) { return failed.Retry(w.Ctx) },
			func() (*workflow.Run[string], error) { return failed.Fork(w.Ctx, keyOf(t, w, failed.ID(), 2)) },
			func() (*workflow.Run[string], error) { return failed.Restart(w.Ctx) },
		} {
			run, err := again()
			if err != nil {
				t.Fatal(err)
			}
			flowtest.Result(w, run)
			reruns = append(reruns, run)
		}
		remove(t, w, failed.ID())
		sweep(t, w, blobs)
		exact(t, w, blobs)
		w.Clock.Advance(60 * time.Hour)
		for i, run := range append(reruns, delayed) {
			if got := flowtest.Result(w, run); got != "mended"+in+text(1, 2*large) {
				t.Errorf("run %d: got %d bytes", i, len(got))
			}
		}
		if got := flowtest.Result(w, waiting); got != in+text(51, 2*large) {
			t.Errorf("the run that waits got %d bytes", len(got))
		}
		sweep(t, w, blobs)
		exact(t, w, blobs)
	})
}

// keyOf returns the key of the nth step of a run.
func keyOf(t *testing.T, w *flowtest.World, run event.RunID, n int) string {
	t.Helper()
	events, err := w.Client.Run(run).ReadEvents(w.Ctx, 1, 100)
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		if events[i].Type == event.StepCreated {
			if n--; n == 0 {
				return events[i].Key
			}
		}
	}
	t.Fatal("the run has no such step")
	return ""
}

// TestOPS11_AChainWithoutItsFirstRunsKeepsItsBlobs proves that a sweep removes the blobs of deleted and
// purged runs of a chain, and no blob that its other runs need: whether the first run or a run in the
// middle is gone.
func TestOPS11_AChainWithoutItsFirstRunsKeepsItsBlobs(t *testing.T) {
	flowtest.OnVirtualTimeAndRedis(t, func(t *testing.T, w *flowtest.World) {
		blobs := flowtest.NewBlobs(w.Clock)
		w.Offload(blobs, large)
		w.Work(worker.Config{}, copying(new(atomic.Bool))...)
		first, err := loops.Start(w.Ctx, w.Client, "")
		if err != nil {
			t.Fatal(err)
		}
		var chain []event.RunID
		w.Eventually("the last run waits", func() bool {
			chain = nil
			for run := first.ID(); run != ""; run = w.Record(w.Client.Run(run)).Next {
				chain = append(chain, run)
			}
			return len(chain) == 4 && w.Record(w.Client.Run(chain[3])).QueueState == store.StateParked
		})
		all := len(blobs.Names())
		remove(t, w, chain[1])
		sweep(t, w, blobs)
		exact(t, w, blobs)
		if got := len(blobs.Names()); got >= all {
			t.Errorf("%d of %d blobs are left after the deletion of a run in the middle", got, all)
		}
		left := len(blobs.Names())
		remove(t, w, chain[0]) // it is hidden: the chain has later runs
		sweep(t, w, blobs)
		if got := len(blobs.Names()); got != left {
			t.Errorf("%d of %d blobs are left after the deletion of the first run", got, left)
		}
		if err := news.Send(w.Ctx, w.Client.Run(chain[3]), "end"); err != nil {
			t.Fatal(err)
		}
		got, err := loops.Get(w.Client, chain[3]).Result(w.Ctx)
		if err != nil || !strings.HasSuffix(got, "end") {
			t.Fatalf("got %d bytes and %v", len(got), err)
		}
		remove(t, w, chain[2], chain[3])
		sweep(t, w, blobs)
		if got := blobs.Names(); len(got) != 0 {
			t.Errorf("after the purge of the chain: %v", got)
		}
	})
}

// TestOPS11_AWorkerThatLivesForMinutesRemovesBlobs proves that the removal of blobs does not require a
// worker that lives for hours, and that the worker removes no blob of a run.
func TestOPS11_AWorkerThatLivesForMinutesRemovesBlobs(t *testing.T) {
	w := flowtest.NewVirtual(t)
	blobs := flowtest.NewBlobs(w.Clock)
	w.Offload(blobs, large)
	earlier := w.Work(worker.Config{}, family()...)
	run, err := children.Start(w.Ctx, w.Client, text(1, 2*large))
	if err != nil {
		t.Fatal(err)
	}
	flowtest.Result(w, run)
	earlier.Stop()
	used := len(blobs.Names())
	stray(t, blobs, "wrun_01JGFJJZ00000000000000000A")
	w.Clock.Advance(sealed.Grace + time.Minute)
	w.Work(worker.Config{}, family()...)
	w.Eventually("the blob is removed", func() bool {
		w.Clock.Advance(time.Second)
		return len(blobs.Names()) <= used
	})
	exact(t, w, blobs)

	stray(t, blobs, "wrun_01JGFJJZ00000000000000000A")
	w.Clock.Advance(sealed.Grace + time.Minute)
	sweeper, lived := sealed.NewSweeper(w.Store, blobs, w.Clock), time.Duration(0)
	for len(blobs.Names()) > used && lived < time.Hour {
		w.Clock.Advance(sweeper.Wait())
		lived += sweeper.Wait()
		pass(t, sweeper)
	}
	if lived < 2*store.Horizon || lived > 10*time.Minute {
		t.Errorf("the blob was removed after %v", lived)
	}
}
