package offload_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// size is the size of the payloads of the tests. It exceeds ClientConfig.MaxPayload.
var size = flag.Int("size", 3<<20, "bytes of each large payload")

var (
	draws  = flowtest.AStep[int, string]("draws", shim.Policy{Retry: flowtest.Quick})
	passes = flowtest.Flow[string, string]("passes")
)

// text returns text of n bytes that cannot be compressed much.
func text(seed, n int) string {
	r := rand.NewChaCha8([32]byte{byte(seed)})
	b := make([]byte, n)
	_, _ = r.Read(b)
	for i := range b {
		b[i] = ' ' + 2 + b[i]&63
		if b[i] == '\\' {
			b[i] = 'x'
		}
	}
	return string(b)
}

// passing binds a workflow of ten steps with large results. Its result is the last of them.
func passing() []flowtest.Binding {
	return []flowtest.Binding{
		draws.As(func(_ context.Context, seed int) (string, error) { return text(seed, *size), nil }),
		flowtest.As(passes, func(ctx workflow.Context, in string) (string, error) {
			for seed := range 10 {
				got, err := draws.Call(ctx, seed)
				if err != nil || len(got) != *size {
					return "", err
				}
				in = got
			}
			return in, nil
		}),
	}
}

// counted is a blob store in files that counts the calls.
type counted struct {
	*codec.FileBlobs
	puts, gets atomic.Int64
}

func newCounted(t *testing.T) *counted {
	t.Helper()
	blobs, err := codec.NewFileBlobs(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { blobs.Close() })
	return &counted{FileBlobs: blobs}
}

func (c *counted) Put(ctx context.Context, name string, data []byte) error {
	c.puts.Add(1)
	return c.FileBlobs.Put(ctx, name, data)
}

func (c *counted) Get(ctx context.Context, name string) ([]byte, error) {
	c.gets.Add(1)
	return c.FileBlobs.Get(ctx, name)
}

func (c *counted) counts() (puts, gets int64) { return c.puts.Load(), c.gets.Load() }

// raw returns the log of a run as the store keeps it.
func raw(t *testing.T, w *flowtest.World, run event.RunID) store.Loaded {
	t.Helper()
	got, err := w.Store.Load(w.Ctx, []store.Load{{Run: run, Inbox: true}})
	if err != nil || got[0].Err != nil {
		t.Fatal(err, got[0].Err)
	}
	return got[0]
}

// TestOPS11_LargeResultsLeaveTheLogSmall proves that a payload above MaxPayload can be stored with a
// blob store, and that neither the log nor its bounds depend on the size of payloads.
func TestOPS11_LargeResultsLeaveTheLogSmall(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		blobs := newCounted(t)
		w.Offload(blobs, 0)
		w.Work(worker.Config{MaxLogBytes: 20 << 10}, passing()...)
		begun := time.Now()
		run, err := passes.Start(w.Ctx, w.Client, text(99, *size))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := run.Result(w.Ctx); err != nil || got != text(9, *size) {
			t.Fatalf("got %d bytes and %v", len(got), err)
		}
		log, total := raw(t, w, run.ID()), 0
		for _, frame := range log.Frames {
			total += len(frame)
		}
		if total > 10<<10 {
			t.Errorf("the log of ten steps has %d bytes", total)
		}
		kept, err := blobs.List(w.Ctx, string(run.ID())+"/", "", 100)
		if err != nil || len(kept) != 12 || !strings.HasPrefix(kept[0].Name, string(run.ID())) {
			t.Errorf("blobs %v, %v: want the input, ten results and the result of the run", kept, err)
		}
		// The worker reads the input, and the client at most the last frames, which it reads together.
		if puts, gets := blobs.counts(); puts != 12 || gets > 1+5 {
			t.Errorf("%d blobs were stored and %d were read, want 12 and at most 6", puts, gets)
		}
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		t.Logf("%d bytes of payload: log of %d bytes, %v, memory from the system %d MiB, allocated in total %d MiB",
			*size, total, time.Since(begun), mem.Sys>>20, mem.TotalAlloc>>20)
	})
}
