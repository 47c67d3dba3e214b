package codecs_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/internal/sealed"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestOPS5_TheIDOfAFailureGroupDependsOnTheKey proves that the ID of a failure group, which can be read
// without a key, does not permit a guess of the text of the failure.
func TestOPS5_TheIDOfAFailureGroupDependsOnTheKey(t *testing.T) {
	seen := map[string]string{}
	for _, id := range []string{"", "k1", "k2"} {
		w := flowtest.NewMemory(t)
		var c store.Codec
		if id != "" {
			c, _ = flowtest.WithKeys(t, id)
		}
		by := w.With(c)
		by.Work(worker.Config{}, flowtest.As(careful, func(_ workflow.Context, s string) (string, error) { return "", errors.New("declined: " + s) }))
		flowtest.Failure(by, flowtest.Start(by, careful, "card"))
		groups, err := ops.New(by.Client).FailureGroups(w.Ctx, ops.FailureFilter{})
		if err != nil || len(groups.Groups) != 1 {
			t.Fatalf("key %q: got groups %+v and %v", id, groups.Groups, err)
		}
		group := groups.Groups[0].Group
		if other, known := seen[group]; known {
			t.Errorf("keys %q and %q give the same failure the same group %s", other, id, group)
		}
		seen[group] = id
	}
}

// outage is a provider that cannot be reached while down is set.
type outage struct {
	codec.KeyProvider
	down  atomic.Bool
	calls atomic.Int64
}

func (o *outage) Key(ctx context.Context, id string) (codec.Key, error) {
	if o.calls.Add(1); o.down.Load() {
		return codec.Key{}, errors.New("no route to host")
	}
	return o.KeyProvider.Key(ctx, id)
}

// TestOPS5_AnOutageOfTheKeysBlocksNoRun proves that runs wait until a key management service answers
// again, because no operator must release them afterwards.
func TestOPS5_AnOutageOfTheKeysBlocksNoRun(t *testing.T) {
	flowtest.OnEachStore(t, func(t *testing.T, w *flowtest.World) {
		c, keys := flowtest.WithKeys(t, "k1")
		run := flowtest.Start(w.With(c), rotating, "0")
		flowtest.Order(t, turns.Send(w.Ctx, run, ""))
		remote := &outage{KeyProvider: keys}
		remote.down.Store(true)
		c, err := codec.New(codec.Config{Keys: remote})
		flowtest.Order(t, err)
		by := w.With(c)
		by.Work(worker.Config{}, rotations()...)
		w.Eventually("the worker has tried to open the run repeatedly", func() bool { return remote.calls.Load() > 3 })
		remote.down.Store(false)
		if got := flowtest.Result(by, rotating.Get(by.Client, run.ID())); got != "0" {
			t.Errorf("got %q", got)
		}
		if n := w.Logs.Count("run is blocked"); n != 0 {
			t.Errorf("the run was blocked %d times", n)
		}
	})
}

// TestOPS5_AMessageForAWorkerWithoutTheCodecBlocksItsReceiver proves that code never receives a sealed
// message, although the log of its run is open.
func TestOPS5_AMessageForAWorkerWithoutTheCodecBlocksItsReceiver(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		plain := w.With(nil)
		var received flowtest.Seen[string]
		receiving := flowtest.As(waiting, func(ctx workflow.Context, _ string) (string, error) {
			text, err := letters.Receive(ctx)
			received.Add(text)
			return text, err
		})
		plain.Work(worker.Config{}, receiving)
		run := flowtest.Start(plain, waiting, "")
		plain.ReachWaiting(run)
		flowtest.Order(t, letters.Send(w.Ctx, w.Client.Run(run.ID()), "secret"))
		plain.BlockedAs(run, "sealed, key k1")
		w.Work(worker.Config{}, receiving)
		if got := flowtest.Result(w, waiting.Get(w.Client, run.ID())); got != "secret" {
			t.Errorf("got %q", got)
		}
		if got := received.Get(); len(got) != 1 {
			t.Errorf("the code received %q", got)
		}
	})
}

// chained writes a chunk in each of two runs, and waits in the second one.
var chained = flowtest.Flow[string, string]("chained")

func chaining() flowtest.Binding {
	return flowtest.As(chained, func(ctx workflow.Context, in string) (string, error) {
		texts.Write(ctx, in)
		if in == "first" {
			return "", chained.ContinueAsNew(ctx, "second")
		}
		return letters.Receive(ctx)
	})
}

// TestOPS5_StreamsAreResealedWhenTheirChainHasEnded proves that reseal leaves open runs and the streams
// of their chains as they are, and later seals the streams of chains of any length.
func TestOPS5_StreamsAreResealedWhenTheirChainHasEnded(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, chaining())
		run := flowtest.Start(w, chained, "first")
		w.Eventually("the chain has continued", func() bool { return w.Record(run).Next != "" })
		last := chained.Get(w.Client, w.Record(run).Next)
		w.ReachWaiting(last)
		both := holding(t, w, "k2", "k1")
		resealer, _ := store.As[*sealed.Store](both.Store())
		if _, err := resealer.Reseal(w.Ctx, last.ID()); !errors.As(err, new(*store.ImportError)) {
			t.Errorf("reseal of an open run: got %v, want a *store.ImportError", err)
		}
		_, err := ops.New(both).Reseal(w.Ctx, nil)
		flowtest.Order(t, err)
		if got := keysOfChunks(t, w, run.ID()); !slices.Equal(got, []string{"k1", "k1"}) {
			t.Errorf("while the chain is open its chunks have keys %v", got)
		}
		flowtest.Order(t, letters.Send(w.Ctx, last, "end"))
		flowtest.Result(w, last)
		_, err = ops.New(both).Reseal(w.Ctx, nil)
		flowtest.Order(t, err)
		if got := keysOfChunks(t, w, run.ID()); !slices.Equal(got, []string{"k2", "k2"}) {
			t.Errorf("after the end of the chain its chunks have keys %v", got)
		}
		if found := w.Check(); len(found) > 0 {
			t.Errorf("the store is damaged: %v", found)
		}
		var read []string
		for c, err := range texts.Read(w.Ctx, holding(t, w, "k2").Run(last.ID())) {
			if err != nil {
				t.Fatalf("read the stream without the old key: %v", err)
			}
			read = append(read, c.Value)
		}
		if !slices.Equal(read, []string{"first", "second"}) {
			t.Errorf("without the old key the stream is %q", read)
		}
	})
}

// repeated remembers the bytes of requests by their identities, and reports those that differ when they
// are repeated.
type repeated struct {
	mu        sync.Mutex
	seen      map[string][]byte
	again     int
	different []string
}

func (r *repeated) add(id string, data ...[]byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := bytes.Join(data, []byte("|"))
	before, known := r.seen[id]
	if r.seen[id] = all; !known {
		return
	}
	if r.again++; !bytes.Equal(before, all) {
		r.different = append(r.different, id)
	}
}

// lose executes each request, and loses every third answer.
func (r *repeated) lose() func(context.Context, string, any, func() error) error {
	var n atomic.Int64
	return func(_ context.Context, _ string, req any, do func() error) error {
		switch req := req.(type) {
		case []store.Commit:
			for i := range req {
				var data [][]byte
				for _, s := range req[i].Send {
					data = append(data, s.Body)
				}
				for _, c := range req[i].Publish {
					data = append(data, c.Body)
				}
				r.add(req[i].CommitID.String(), append(data, req[i].Frame)...)
			}
		case []store.Create:
			for i := range req {
				r.add(string(req[i].Run), req[i].Frame)
			}
		case store.Deliver:
			r.add(string(req.Item.ID), req.Item.Body)
		default:
			return do()
		}
		if err := do(); err != nil || n.Add(1)%3 != 0 {
			return err
		}
		return flowtest.ErrOutage
	}
}

// TestOPS5_ARepeatedRequestHasTheSameBytes proves that a commit, start or message whose answer was lost
// is sealed to the same bytes when it is repeated, and that nothing is lost or done twice.
func TestOPS5_ARepeatedRequestHasTheSameBytes(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		r := &repeated{seen: map[string][]byte{}}
		w.WorkOn(&flowtest.Between{Store: w.Store, Around: r.lose()}, worker.Config{}, append(rotations(), chaining())...)
		var runs []*workflow.Run[string]
		for n := range 20 {
			run := flowtest.Start(w, rotating, strconv.Itoa(n))
			for _, text := range []string{"x", "y", ""} {
				flowtest.Order(t, turns.Send(w.Ctx, run, text))
			}
			runs = append(runs, run)
		}
		for n, run := range runs {
			if got, want := flowtest.Result(w, run), strconv.Itoa(n)+"xy"; got != want {
				t.Errorf("run %d: got %q, want %q", n, got, want)
			}
		}
		w.StopWorkers()
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.again < 10 || len(r.different) > 0 {
			t.Errorf("%d requests were repeated, and %v had other bytes", r.again, r.different)
		}
		w.Healthy()
	})
}

// keysOfChunks returns the keys of the chunks of the stream texts.
func keysOfChunks(t *testing.T, w *flowtest.World, run event.RunID) (ids []string) {
	t.Helper()
	lister, _ := store.As[store.StreamLister](w.Store)
	names, err := lister.StreamNames(w.Ctx, run)
	flowtest.Order(t, err)
	for _, name := range names {
		page, err := w.Store.ReadStream(w.Ctx, store.ReadStream{Run: run, Stream: name, From: 1})
		flowtest.Order(t, err)
		for _, c := range page.Chunks {
			s, err := event.ReadSealed(c.Body)
			flowtest.Order(t, err)
			ids = append(ids, s.Key)
		}
	}
	return ids
}
