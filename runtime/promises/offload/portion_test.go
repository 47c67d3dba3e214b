package offload_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

const (
	ofPortion = 3 // results that fit into a portion
	portions  = 2
)

var (
	fills = flowtest.AStep[int, string]("fills", shim.Policy{Retry: flowtest.Quick})
	rests = flowtest.Flow[int, string]("rests")
)

// resting binds a workflow that has some portions of results before it sleeps, and one afterwards. It
// counts the results that its code receives.
func resting(received, executed *atomic.Int64) []flowtest.Binding {
	return []flowtest.Binding{
		fills.As(func(_ context.Context, n int) (string, error) {
			executed.Add(1)
			return strings.Repeat(string(rune('a'+n)), store.LogPortion/ofPortion-100), nil
		}),
		flowtest.As(rests, func(ctx workflow.Context, _ int) (sum string, err error) {
			for n := range ofPortion*portions + 1 {
				if n == ofPortion*portions {
					workflow.Sleep(ctx, time.Hour)
				}
				got, err := fills.Call(ctx, n)
				if err != nil {
					return "", err
				}
				received.Add(1)
				sum += fmt.Sprintf("%c%d ", got[len(got)-1], len(got))
			}
			return sum, nil
		}),
	}
}

// rest executes such a run until it sleeps, and stops its worker.
func rest(w *flowtest.World, bindings []flowtest.Binding) *workflow.Run[string] {
	w.Work(worker.Config{}, bindings...)
	run := flowtest.Start(w, rests, 1)
	w.Eventually("the run sleeps", func() bool { return w.Parked(run) })
	w.StopWorkers()
	return run
}

// sum is the result of the run.
func sum() (all string) {
	for n := range ofPortion*portions + 1 {
		all += fmt.Sprintf("%c%d ", 'a'+n, store.LogPortion/ofPortion-100)
	}
	return all
}

// TestOPS11_LargeLogsAreReplayedInPortions proves that a worker which replays a log with large data reads
// them in portions: it reads the next one after the code has received the data of the previous one.
func TestOPS11_LargeLogsAreReplayedInPortions(t *testing.T) {
	flowtest.OnVirtualTime(t, func(t *testing.T, w *flowtest.World, _ *flowtest.Purges) {
		blobs := flowtest.NewBlobs(w.Clock)
		w.Offload(blobs, 100)
		var received, executed, read, most atomic.Int64
		bindings := resting(&received, &executed)
		run := rest(w, bindings)
		received.Store(0)
		blobs.OnGet = func(context.Context, string) error {
			if received.Load() >= ofPortion*portions {
				return nil // the code is executed
			}
			ahead := read.Add(1) - received.Load()
			for before := most.Load(); ahead > before && !most.CompareAndSwap(before, ahead); before = most.Load() {
			}
			return nil
		}
		w.Work(worker.Config{}, bindings...)
		w.Clock.Advance(time.Hour)
		if got := flowtest.Result(w, run); got != sum() {
			t.Errorf("got %s, want %s", got, sum())
		}
		if read.Load() != ofPortion*portions || most.Load() != ofPortion {
			t.Errorf("%d blobs were read, up to %d at once; want %d, %d", read.Load(), most.Load(), ofPortion*portions, ofPortion)
		}
		if n := executed.Load(); n != ofPortion*portions+1 {
			t.Errorf("%d steps were executed", n)
		}
	})
}

// TestOPS11_AMissingBlobInALaterPortionBlocksTheRun proves that a run which was replayed up to a missing
// blob executes nothing and is blocked, and continues when the blob is back.
func TestOPS11_AMissingBlobInALaterPortionBlocksTheRun(t *testing.T) {
	w := flowtest.NewVirtual(t)
	blobs := flowtest.NewBlobs(w.Clock)
	w.Offload(blobs, 100)
	var received, executed atomic.Int64
	bindings := resting(&received, &executed)
	var last string
	var data []byte
	blobs.OnPut = func(name string) (err error) {
		last = name
		data, err = blobs.Get(w.Ctx, name)
		return err
	}
	run := rest(w, bindings)
	if err := blobs.Delete(w.Ctx, last); err != nil {
		t.Fatal(err)
	}
	received.Store(0)
	w.Work(worker.Config{}, bindings...)
	w.Clock.Advance(time.Hour)
	w.Blocked(run)
	if info, err := w.Client.Run(run.ID()).Info(w.Ctx); err != nil || !strings.Contains(info.Blocked, "blob "+last+": blob not found") {
		t.Errorf("the run is blocked because of %q, %v", info.Blocked, err)
	}
	if received.Load() != ofPortion*(portions-1) || executed.Load() != ofPortion*portions {
		t.Errorf("the code has received %d results, and %d steps were executed", received.Load(), executed.Load())
	}
	if err := blobs.Put(w.Ctx, last, data); err != nil {
		t.Fatal(err)
	}
	w.Clock.Advance(2 * time.Minute)
	if got := flowtest.Result(w, run); got != sum() {
		t.Errorf("got %s, want %s", got, sum())
	}
}
