package offload_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
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
	run, err := parents.Start(w.Ctx, w.Client, text(1, 2*large))
	if err != nil {
		t.Fatal(err)
	}
	if err := news.Send(w.Ctx, run, text(2, 2*large)); err != nil {
		t.Fatal(err)
	}
	if got := flowtest.Result(w, run); got != "again"+text(2, 2*large)+text(7, large) {
		t.Fatalf("got %d bytes", len(got))
	}
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

// settle advances the time until a worker has delivered all records and removed their traces.
func settle(t *testing.T, w *flowtest.World) {
	t.Helper()
	w.Eventually("the outboxes are empty", func() bool {
		w.Clock.Advance(store.Horizon)
		empty := true
		for p := range w.Store.Partitions() {
			records, next, err := w.Store.Outbox(w.Ctx, p, 1)
			if err != nil {
				t.Fatal(err)
			}
			empty = empty && len(records) == 0 && next.IsZero()
		}
		return empty
	})
}

// remove deletes runs and purges them if no later run of their chains exists.
func remove(t *testing.T, w *flowtest.World, runs ...event.RunID) {
	t.Helper()
	purger, _ := store.As[store.Purger](w.Store)
	for _, run := range runs {
		if err := purger.Delete(w.Ctx, run); err != nil {
			t.Fatal(err)
		}
	}
	settle(t, w)
	w.Clock.Advance(2 * store.Horizon)
	for p := range w.Store.Partitions() {
		for n := 1; n > 0; {
			var err error
			if n, _, err = purger.Purge(w.Ctx, p, 100); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// sweep lets all blobs grow old, and removes those without references.
func sweep(t *testing.T, w *flowtest.World, blobs store.BlobStore) {
	t.Helper()
	w.Clock.Advance(sealed.Grace + time.Hour)
	settle(t, w)
	sweeper := sealed.NewSweeper(w.Store, blobs, w.Clock)
	for range 3 {
		pass(t, sweeper)
		w.Clock.Advance(sweeper.Wait())
	}
}

// exact fails the test if a blob is missing or has no reference, or if a run or stream cannot be read.
func exact(t *testing.T, w *flowtest.World, blobs *flowtest.Blobs, streams ...string) {
	t.Helper()
	want := map[string]bool{}
	for _, run := range w.List(workflow.Filter{}) {
		log := raw(t, w, run)
		names := store.BlobNames{Chain: log.Record.Chain}
		for _, frame := range log.Frames {
			if err := names.Frame(frame); err != nil {
				t.Fatal(err)
			}
		}
		for i := range log.Inbox {
			if err := names.Item(log.Inbox[i].Body); err != nil {
				t.Fatal(err)
			}
		}
		for _, stream := range streams {
			page, err := w.Store.ReadStream(w.Ctx, store.ReadStream{Run: run, Stream: stream, From: 1})
			if err != nil {
				t.Fatal(err)
			}
			for i := range page.Chunks {
				names.Data(page.Chunks[i].Body)
			}
			if _, err := w.Client.Store().ReadStream(w.Ctx, store.ReadStream{Run: run, Stream: stream, From: 1}); err != nil {
				t.Errorf("stream %s of run %s cannot be read: %v", stream, run, err)
			}
		}
		maps.Copy(want, names.Names)
		if got, err := w.Client.Store().Load(w.Ctx, []store.Load{{Run: run, Inbox: true}}); err != nil || got[0].Err != nil || got[0].Sealed != nil {
			t.Errorf("run %s cannot be read: %v, %v, %v", run, err, got[0].Err, got[0].Sealed)
		}
	}
	if got, want := blobs.Names(), slices.Sorted(maps.Keys(want)); !slices.Equal(got, want) {
		t.Errorf("the store has %d blobs, the runs need %d: %s", len(got), len(want), cmp.Diff(want, got))
	}
}

// TestOPS11_BlobsGoWithTheirRuns proves that a sweep removes each blob to which nothing refers, and no
// other: those of commits that were lost, those of consumed items, and those of purged runs.
func TestOPS11_BlobsGoWithTheirRuns(t *testing.T) {
	flowtest.OnVirtualTimeAndRedis(t, func(t *testing.T, w *flowtest.World) {
		blobs := flowtest.NewBlobs(w.Clock)
		w.Offload(blobs, large)
		w.Work(worker.Config{}, family()...)
		run := relatives(t, w)
		stray(t, blobs, string(run.ID()))
		stray(t, blobs, "wrun_01JGFJJZ00000000000000000A")
		before := len(blobs.Names())
		sweep(t, w, blobs)
		exact(t, w, blobs, "s:offload.drafts")
		if got := len(blobs.Names()); got < 6 || got > before-4 { // the message and the result of the child were consumed
			t.Errorf("%d of %d blobs are left", got, before)
		}
		if got := flowtest.Result(w, run); len(got) < large {
			t.Errorf("got %d bytes", len(got))
		}
		remove(t, w, w.List(workflow.Filter{})...)
		sweep(t, w, blobs)
		if got := blobs.Names(); len(got) != 0 {
			t.Errorf("after the purge of all runs: %v", got)
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

func (g *guarded) Unwrap() store.Store { return g.Store }

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
