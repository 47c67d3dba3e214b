package offload_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/internal/sealed"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// later is the clock of the machine, moved forward.
type later struct {
	store.Clock
	by time.Duration
}

func (l *later) Now() time.Time { return l.Clock.Now().Add(l.by) }

// large is the size above which the tests of this file offload.
const large = 1000

var (
	parents  = flowtest.Flow[string, string]("parents")
	children = flowtest.Flow[string, string]("children")
	news     = workflow.NewTopic[string]("offload.news")
	drafts   = workflow.NewStream[string]("offload.drafts")
)

// family binds a workflow that receives a large message, calls a child with it, writes it to a stream
// and continues as new once.
func family() []flowtest.Binding {
	return []flowtest.Binding{
		flowtest.As(children, func(_ workflow.Context, in string) (string, error) { return in + text(7, large), nil }),
		flowtest.As(parents, func(ctx workflow.Context, in string) (string, error) {
			if strings.HasPrefix(in, "again") {
				return in, nil
			}
			note, err := news.Receive(ctx)
			if err != nil {
				return "", err
			}
			got, err := children.Child(ctx, note)
			if err != nil {
				return "", err
			}
			drafts.Write(ctx, got)
			return "", parents.ContinueAsNew(ctx, "again"+got)
		}),
	}
}

// relatives executes the family and returns the first run and its result.
func relatives(t *testing.T, w *flowtest.World) *workflow.Run[string] {
	t.Helper()
	running := w.Work(worker.Config{}, family()...)
	run, err := parents.Start(w.Ctx, w.Client, text(1, 2*large))
	if err != nil {
		t.Fatal(err)
	}
	if err := news.Send(w.Ctx, run, text(2, 2*large)); err != nil {
		t.Fatal(err)
	}
	if got, err := run.Result(w.Ctx); err != nil || got != "again"+text(2, 2*large)+text(7, large) {
		t.Fatalf("got %d bytes and %v", len(got), err)
	}
	running.Stop()
	return run
}

func pass(t *testing.T, s *sealed.Sweeper) {
	t.Helper()
	if err := s.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func stray(t *testing.T, blobs store.BlobStore, prefix string) string {
	t.Helper()
	name := prefix + "/" + strings.Repeat("ab", 32)
	if err := blobs.Put(t.Context(), name, []byte("stray")); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestOPS11_BlobsGoWithTheirRuns proves that a sweep removes each blob to which nothing refers, and no
// other: those of commits that were lost, and those of deleted runs.
func TestOPS11_BlobsGoWithTheirRuns(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		clock := &later{Clock: store.SystemClock}
		blobs := flowtest.NewBlobs(clock)
		w.Offload(blobs, large)
		run := relatives(t, w)
		used := blobs.Names()
		stray(t, blobs, string(run.ID()))
		stray(t, blobs, "wrun_01JGFJJZ00000000000000000A")

		sweeper := sealed.NewSweeper(w.Store, blobs, clock)
		pass(t, sweeper)
		clock.by = sealed.Grace + time.Minute
		sweeper = sealed.NewSweeper(w.Store, blobs, clock)
		pass(t, sweeper)
		if got := blobs.Names(); len(got) != len(used)+2 || len(used) < 8 {
			t.Fatalf("after one pass %v, the runs use %v", got, used)
		}
		clock.by += time.Hour
		pass(t, sweeper)
		// The message and the result of the child were consumed: the log has them at other places.
		if got := blobs.Names(); len(got) != len(used)-2 || slices.ContainsFunc(got, func(name string) bool { return !slices.Contains(used, name) }) {
			t.Fatalf("after two passes %v, want all but two of %v", got, used)
		}
		for _, of := range w.List(workflow.Filter{}) {
			if got, err := w.Client.Store().Load(w.Ctx, []store.Load{{Run: of, Inbox: true}}); err != nil || got[0].Err != nil || got[0].Sealed != nil {
				t.Errorf("run %s cannot be read: %v, %v", of, err, got)
			}
		}
		page, err := w.Client.Store().ReadStream(w.Ctx, store.ReadStream{Run: run.ID(), Stream: "s:offload.drafts", From: 1})
		if err != nil || len(page.Chunks) != 1 {
			t.Errorf("the stream has %d chunks and cannot be read: %v", len(page.Chunks), err)
		}
		if got, err := run.Result(w.Ctx); err != nil || len(got) < large {
			t.Fatalf("got %d bytes and %v", len(got), err)
		}
		purger, _ := store.As[store.Purger](w.Store)
		for _, of := range w.List(workflow.Filter{}) {
			if err := purger.Delete(w.Ctx, of); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			clock.by += time.Hour
			pass(t, sweeper)
		}
		if got := blobs.Names(); len(got) != 0 {
			t.Errorf("after the deletion of all runs: %v", got)
		}
	})
}

// TestOPS11_BlobsOfWaitingItemsStay proves that a blob to which only an item in an inbox refers is kept.
func TestOPS11_BlobsOfWaitingItemsStay(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		clock := &later{Clock: store.SystemClock}
		blobs := flowtest.NewBlobs(clock)
		w.Offload(blobs, large)
		run := flowtest.Start(w, parents, "small")
		flowtest.Order(t, news.Send(w.Ctx, run, text(2, 2*large)))
		used := blobs.Names()
		clock.by = sealed.Grace + time.Minute
		sweeper := sealed.NewSweeper(w.Store, blobs, clock)
		for range 3 {
			pass(t, sweeper)
			clock.by += time.Hour
		}
		if got := blobs.Names(); len(used) != 1 || !slices.Equal(got, used) {
			t.Errorf("after the sweeps %v, want %v", got, used)
		}
	})
}

// TestOPS11_NoBlobIsRemovedThatACommitMayReferTo proves the guards of a sweep.
func TestOPS11_NoBlobIsRemovedThatACommitMayReferTo(t *testing.T) {
	for name, guard := range map[string]func(t *testing.T, b *guarded, clock *later){
		"the blob is stored again between the passes": func(t *testing.T, b *guarded, _ *later) { stray(t, b.Blobs, b.chain) },
		"the blob is stored again after it was listed": func(_ *testing.T, b *guarded, _ *later) {
			b.listed = sync.OnceFunc(func() { stray(t, b.Blobs, b.chain) })
		},
		"a record waits for its delivery": func(_ *testing.T, b *guarded, clock *later) {
			b.records = []store.Outgoing{{Since: clock.Now().Add(-sealed.Grace / 3)}}
		},
		"the pass follows at once": func(_ *testing.T, _ *guarded, clock *later) { clock.by -= time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			w := flowtest.NewMemory(t)
			clock := &later{Clock: store.SystemClock}
			b := &guarded{Store: w.Store, Blobs: flowtest.NewBlobs(clock), chain: "wrun_01JGFJJZ00000000000000000A"}
			want := stray(t, b.Blobs, b.chain)
			clock.by = sealed.Grace + time.Minute
			sweeper := sealed.NewSweeper(b, b.blobs(), clock)
			pass(t, sweeper)
			clock.by += time.Hour
			guard(t, b, clock)
			pass(t, sweeper)
			if got := b.Names(); !slices.Equal(got, []string{want}) {
				t.Fatalf("the blob was removed: %v", got)
			}
			b.listed, b.records = nil, nil
			for range 3 {
				clock.by += sealed.Grace + time.Hour
				pass(t, sweeper)
			}
			if got := b.Names(); len(got) != 0 {
				t.Fatalf("the blob was never removed: %v", got)
			}
		})
	}
}

// guarded is a store with the given records in its outbox, and its blobs.
type guarded struct {
	store.Store
	*flowtest.Blobs
	chain   string
	listed  func()
	records []store.Outgoing
}

func (g *guarded) Outbox(context.Context, int, int) ([]store.Outgoing, time.Time, error) {
	return g.records, time.Time{}, nil
}

func (g *guarded) blobs() store.BlobStore { return listing{g.Blobs, g} }

// listing calls g.listed after each complete list.
type listing struct {
	*flowtest.Blobs
	g *guarded
}

func (l listing) List(ctx context.Context, prefix, after string, limit int) ([]store.Blob, error) {
	page, err := l.Blobs.List(ctx, prefix, after, limit)
	if prefix == "" && l.g.listed != nil {
		l.g.listed()
	}
	return page, err
}
