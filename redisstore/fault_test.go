package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

var orders = store.Route{Queue: "default", Workflow: "orders.fulfil"}

// writer commits to owned runs as a worker does: it repeats each request with the same bytes until
// it is answered.
type writer struct {
	t     *testing.T
	ctx   context.Context
	st    *redisstore.Store
	ids   *storetest.IDs
	by    []store.SessionID // the session that owns the runs of each partition
	runs  []*written
	again atomic.Int64 // number of requests without an answer
}

// written is a run and the contents that the store must have for it.
type written struct {
	log    *storetest.Log
	fence  store.Fence
	frames [][]byte
	chunks []string // chunks of the stream of the run
}

// newWriter creates and claims runs over a connection without faults.
func newWriter(t *testing.T, good, st *redisstore.Store, runs int) *writer {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	w := &writer{t: t, ctx: ctx, st: st, ids: &storetest.IDs{}}
	var creates []store.Create
	byID := map[event.RunID]*written{}
	for range runs {
		l := w.log()
		c := l.Create()
		creates = append(creates, c)
		r := &written{log: l, frames: [][]byte{c.Frame}}
		w.runs, byID[l.Run] = append(w.runs, r), r
	}
	if _, err := good.Create(ctx, creates); err != nil {
		t.Fatal(err)
	}
	for p := range good.Partitions() {
		s := store.Session{Partition: p, ID: w.ids.Session(), Worker: "writer", TTL: time.Hour, Routes: []store.Route{orders}}
		if err := good.OpenSession(ctx, s); err != nil {
			t.Fatal(err)
		}
		w.by = append(w.by, s.ID)
		got, err := good.Claim(ctx, store.Claim{Partition: p, Session: s.ID, Token: event.NewToken(), Routes: s.Routes, Max: runs})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range got.Runs {
			byID[c.Run].fence = c.Fence
		}
	}
	return w
}

// log returns the log of a run that does not exist yet.
func (w *writer) log() *storetest.Log {
	return storetest.NewLog(w.ids, w.st.Clock(), event.NewRunID(time.Now(), event.RandomSlot()), event.Spec{Workflow: orders.Workflow, Queue: orders.Queue})
}

// begin creates further runs that are owned from the beginning, as the local starts of a worker are.
func (w *writer) begin(runs int) {
	w.t.Helper()
	creates, begun := make([]store.Create, runs), make([]*written, runs)
	for i := range creates {
		l := w.log()
		creates[i] = l.Create()
		creates[i].Owner = &store.Owner{Session: w.by[int(l.Run.Slot())%len(w.by)], Token: event.NewToken()}
		begun[i] = &written{log: l, fence: creates[i].Owner.Fence(), frames: [][]byte{creates[i].Frame}}
	}
	answers := insistOn(w, func() ([]store.Created, error) { return w.st.Create(w.ctx, creates) }, func(a store.Created) error { return a.Err })
	for i, a := range answers {
		if a.Err != nil || a.Fence != begun[i].fence {
			w.t.Errorf("create run %s: got %+v, want fence %v", creates[i].Run, a, begun[i].fence)
		}
	}
	w.runs = append(w.runs, begun...)
}

// end ends all runs.
func (w *writer) end() {
	w.t.Helper()
	commits := make([]store.Commit, len(w.runs))
	for i, r := range w.runs {
		commits[i] = r.log.Commit(r.fence, r.log.End(event.StatusCompleted)...)
		commits[i].Effect, commits[i].Status, commits[i].Progress = store.EffectFinish, event.StatusCompleted, true
	}
	w.settle(w.runs, commits, func() ([]store.Committed, error) { return w.st.Commit(w.ctx, commits) })
}

// write commits the given number of frames to each run. It commits to several runs at the same
// time.
func (w *writer) write(rounds, together int) {
	w.t.Helper()
	var all sync.WaitGroup
	for runs := range slices.Chunk(w.runs, (len(w.runs)+together-1)/together) {
		all.Go(func() {
			for range rounds {
				w.commit(runs)
				w.publish(runs[0])
			}
		})
	}
	all.Wait()
}

func (w *writer) commit(runs []*written) {
	commits := make([]store.Commit, len(runs))
	for i, r := range runs {
		commits[i] = r.log.Commit(r.fence, r.log.Work()...)
		if len(r.frames)%4 == 0 {
			commits[i].Publish = []store.Publication{{Stream: "s", Body: fmt.Appendf(nil, "frame %d", len(r.frames))}}
		}
	}
	w.settle(runs, commits, func() ([]store.Committed, error) { return w.st.Commit(w.ctx, commits) })
}

// settle calls try until all commits are answered, and records the frames that were committed. It
// reports whether all commits succeeded.
func (w *writer) settle(runs []*written, commits []store.Commit, try func() ([]store.Committed, error)) bool {
	answers := insistOn(w, try, func(a store.Committed) error { return a.Err })
	if answers == nil {
		return false
	}
	for i, r := range runs {
		if answers[i].Err != nil {
			w.t.Errorf("commit to run %s: %v", r.log.Run, answers[i].Err)
			return false
		}
		r.log.Accept(commits[i])
		r.frames = append(r.frames, commits[i].Frame)
		for _, p := range commits[i].Publish {
			r.chunks = append(r.chunks, string(p.Body))
		}
		if got := answers[i].N; got != uint64(len(r.frames)) {
			w.t.Errorf("commit to run %s: got %d frames, want %d", r.log.Run, got, len(r.frames))
		}
	}
	return true
}

// insistOn calls try until it has answered each request of the call. It returns nil if the test ends
// before.
func insistOn[A any](w *writer, try func() ([]A, error), failure func(A) error) []A {
	w.t.Helper()
	for {
		answers, err := try()
		if err == nil && !slices.ContainsFunc(answers, func(a A) bool { return store.Unknown(failure(a)) }) {
			return answers
		}
		if w.ctx.Err() != nil {
			w.t.Errorf("a request without an answer: %v", err)
			return nil
		}
		w.again.Add(1)
	}
}

// publish writes to the stream of a run without a commit, as steps do.
func (w *writer) publish(r *written) {
	nth := uint64(len(r.frames))
	p := store.Publication{Stream: "s", Body: fmt.Appendf(nil, "step %d", nth), Writer: "step", Nth: nth}
	for {
		err := w.st.Publish(w.ctx, r.log.Run, r.fence, []store.Publication{p})
		if err == nil {
			break
		}
		if w.ctx.Err() != nil {
			w.t.Errorf("publish: %v", err)
			return
		}
		w.again.Add(1)
	}
	r.chunks = append(r.chunks, string(p.Body))
}

// chunks returns the bodies of all chunks in the stream of a run.
func (w *writer) chunks(good *redisstore.Store, r *written) []string {
	w.t.Helper()
	page, err := good.ReadStream(w.ctx, store.ReadStream{Run: r.log.Run, Stream: "s", Limit: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	var chunks []string
	for _, c := range page.Chunks {
		chunks = append(chunks, string(c.Body))
	}
	return chunks
}

// verify fails the test unless the store contains each written run, and each frame and chunk
// exactly once.
func (w *writer) verify(good *redisstore.Store) {
	w.t.Helper()
	var loads []store.Load
	for _, r := range w.runs {
		loads = append(loads, store.Load{Run: r.log.Run})
	}
	got, err := good.Load(w.ctx, loads)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, r := range w.runs {
		if !reflect.DeepEqual(r.frames, got[i].Frames) {
			w.t.Fatalf("log of run %s (-written +stored):\n%s", r.log.Run, cmp.Diff(r.frames, got[i].Frames))
		}
		if spec, rec := r.log.Spec, got[i].Record; rec.WorkflowID != spec.WorkflowID || !maps.Equal(rec.Tags, spec.Tags) || rec.Route != orders {
			w.t.Fatalf("run %s: got %+v, want what was created with %+v", r.log.Run, rec, spec)
		}
		if chunks := w.chunks(good, r); !reflect.DeepEqual(r.chunks, chunks) {
			w.t.Fatalf("stream of run %s (-written +stored):\n%s", r.log.Run, cmp.Diff(r.chunks, chunks))
		}
	}
	sound(w.t, good)
}

// faulty injects a fault into one of oneIn transmissions, selected at random.
func faulty(seed uint64, oneIn int) redistest.Harm {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 1))
	draw := func() (int, int) {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(oneIn), random.IntN(4)
	}
	return func(answer bool, _ []byte) redistest.Verdict {
		hit, kind := draw()
		if hit != 0 {
			return redistest.Pass
		}
		switch {
		case kind == 0:
			<-time.After(2 * time.Millisecond) // delay the transmission
			return redistest.Pass
		case kind == 1:
			return redistest.Cut // possibly in the middle of a pipeline
		case answer:
			return redistest.Drop // the server has executed the command
		}
		return redistest.Drop
	}
}

// eachServer runs a test on a single server and on a cluster. dial returns a client whose
// connections pass through proxies with the given faults.
func eachServer(t *testing.T, test func(t *testing.T, url string, addrs []string, dial func(h redistest.Harm) redis.UniversalClient)) {
	t.Run("server", func(t *testing.T) {
		s := redistest.Shared(t)
		test(t, s.URL(), []string{s.Addr}, func(h redistest.Harm) redis.UniversalClient {
			p := redistest.NewProxy(t, s.Addr)
			p.Do(h)
			return closing(t, redis.NewClient(&redis.Options{Addr: p.Addr}))
		})
	})
	t.Run("cluster", func(t *testing.T) {
		c := redistest.SharedCluster(t)
		var addrs []string
		for _, m := range c.Masters {
			addrs = append(addrs, m.Addr)
		}
		test(t, c.URL(), addrs, func(h redistest.Harm) redis.UniversalClient {
			through := map[string]string{}
			for _, addr := range addrs {
				p := redistest.NewProxy(t, addr)
				p.Do(h)
				through[addr] = p.Addr
			}
			return closing(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: addrs, Dialer: dialing(through)}))
		})
	})
}

func closing[C redis.UniversalClient](t testing.TB, client C) C {
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestSTORE3_LostAnswersDoubleNothingAndLoseNothing(t *testing.T) {
	eachServer(t, func(t *testing.T, url string, _ []string, dial func(redistest.Harm) redis.UniversalClient) {
		prefix := redistest.Prefix()
		good := openURL(t, with(url, "prefix="+prefix))
		defer good.Close()
		st, err := redisstore.New(dial(faulty(7, 15)), redisstore.Config{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		st.BatchEverything()
		w := newWriter(t, good, st, 80)
		w.write(20, 4)
		w.begin(80)
		w.write(20, 8)
		w.end()
		w.verify(good)
		t.Logf("%d commits, %d batches without an answer", 80*(20+2*20), w.again.Load())
		if w.again.Load() < 10 {
			t.Errorf("%d batches had no answer: the proxy did no harm", w.again.Load())
		}
	})
}

func TestSTORE3_FlushedScriptsAreSentAgain(t *testing.T) {
	eachServer(t, func(t *testing.T, url string, addrs []string, _ func(redistest.Harm) redis.UniversalClient) {
		st := openURL(t, with(url, "prefix="+redistest.Prefix()))
		defer st.Close()
		st.BatchEverything()
		w := newWriter(t, st, st, 40)
		written := make(chan struct{})
		var flushes int
		var flusher sync.WaitGroup
		flusher.Go(func() {
			for {
				for _, addr := range addrs {
					c := redis.NewClient(&redis.Options{Addr: addr})
					if err := c.ScriptFlush(w.ctx).Err(); err != nil {
						t.Errorf("script flush: %v", err)
					}
					_ = c.Close()
				}
				flushes++
				select {
				case <-written:
					return
				default:
				}
			}
		})
		w.write(12, 2)
		w.begin(40)
		w.write(12, 4)
		w.end()
		close(written)
		flusher.Wait()
		w.verify(st)
		t.Logf("%d flushes", flushes)
	})
}

func TestSTORE3_KilledConnectionsDoNoHarm(t *testing.T) {
	eachServer(t, func(t *testing.T, url string, addrs []string, _ func(redistest.Harm) redis.UniversalClient) {
		st := openURL(t, with(url, "prefix="+redistest.Prefix()))
		defer st.Close()
		st.BatchEverything()
		w := newWriter(t, st, st, 40)
		written := make(chan struct{})
		var killed int64
		var killer sync.WaitGroup
		killer.Go(func() {
			for {
				for _, addr := range addrs {
					c := redis.NewClient(&redis.Options{Addr: addr})
					n, err := c.Do(w.ctx, "client", "kill", "type", "normal", "skipme", "yes").Int64()
					if err != nil {
						t.Errorf("client kill: %v", err)
					}
					killed += n
					_ = c.Close()
				}
				select {
				case <-written:
					return
				case <-time.After(3 * time.Millisecond):
				}
			}
		})
		w.write(25, 2)
		w.begin(40)
		w.write(25, 4)
		w.end()
		close(written)
		killer.Wait()
		w.verify(st)
		t.Logf("%d connections killed, %d batches without an answer", killed, w.again.Load())
		if killed == 0 {
			t.Error("no connection was killed")
		}
	})
}

func TestSTORE4_RestartedServerGoesOnWithEverythingThatWasAnswered(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	st := openURL(t, server.URL())
	defer st.Close()
	w := newWriter(t, st, st, 20)
	w.write(10, 2)

	watched := make(chan error, 1)
	run := w.runs[0]
	go func() { watched <- st.Watch(w.ctx, run.log.Run, uint64(len(run.frames))) }()
	server.Kill()
	if _, err := st.Load(w.ctx, []store.Load{{Run: run.log.Run}}); err == nil {
		t.Error("load without a server: got no error")
	}
	server.Restart(t)
	w.write(10, 2)
	w.verify(st)
	// Watch fails if it began before its connection was established, or while the server was down.
	if err := <-watched; err != nil && !strings.Contains(err.Error(), "watch run") {
		t.Errorf("watch: %v", err)
	}
}

func TestErrors_SayThatTheServerIsAway(t *testing.T) {
	server := redistest.Start(t)
	st := openURL(t, server.URL())
	defer st.Close()
	server.Kill()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	_, err := st.Resolve(ctx, "order")
	if err == nil || errors.Is(err, store.ErrRunNotFound) {
		t.Errorf("resolve without a server: got %v, want an error of the connection", err)
	}
}

func TestSTORE4_APromotedReplicaHasEverythingThatWasWaitedFor(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, true)
	careful := openURL(t, with(cluster.URL(), "wait_replicas=1"))
	defer careful.Close()
	st := openURL(t, cluster.URL())
	defer st.Close()
	w := newWriter(t, careful, careful, 40)
	w.write(5, 2)
	master, replica := cluster.Masters[0], cluster.Replicas[0]
	if !isMaster(t, master) { // on a busy machine, the replica may already have been promoted
		master, replica = replica, master
	}
	master.Kill()
	w.st = st // this store does not wait for replicas, and the promoted replica has none
	w.write(5, 2)
	w.verify(st)
	if !isMaster(t, replica) {
		t.Error("no replica was promoted")
	}
}

func isMaster(t *testing.T, s *redistest.Server) bool {
	t.Helper()
	role, err := s.Client(t).Do(context.Background(), "role").Slice()
	if err != nil {
		t.Fatal(err)
	}
	return role[0] == "master"
}
