package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// hasty commits repeatedly, cancels most of these calls while they are in progress, and clears
// their arguments as soon as they return.
func (w *writer) hasty(runs []*written, rounds int) {
	for range rounds {
		commits := make([]store.Commit, len(runs))
		for i, r := range runs {
			commits[i] = r.log.Commit(r.fence, r.log.Work()...)
		}
		patience := 500 * time.Microsecond
		done := w.settle(runs, commits, func() ([]store.Committed, error) {
			// The store must not read a request after the call has returned.
			reused := slices.Clone(commits)
			defer clear(reused)
			ctx, cancel := context.WithTimeout(w.ctx, rand.N(patience))
			defer cancel()
			patience *= 2
			return w.st.Commit(ctx, reused)
		})
		if !done {
			return
		}
	}
}

// hastyCreates is like hasty for creations of the given number of runs. It returns the runs.
func (w *writer) hastyCreates(together, rounds int) (runs []*written) {
	for range rounds {
		creates, fresh := make([]store.Create, together), make([]*written, together)
		for i := range creates {
			spec, slot := event.Spec{Workflow: orders.Workflow, Queue: orders.Queue}, event.RandomSlot()
			if rand.N(2) == 0 { // such a creation has more arguments
				spec.WorkflowID = fmt.Sprintf("order-%d", rand.Uint64())
				spec.Tags = map[string]string{"tag": fmt.Sprint(rand.Uint64())}
				slot = event.SlotOf(spec.WorkflowID)
			}
			fresh[i] = &written{log: storetest.NewLog(w.ids, w.st.Clock(), event.NewRunID(time.Now(), slot), spec)}
			creates[i] = fresh[i].log.Create()
			fresh[i].frames = [][]byte{creates[i].Frame}
		}
		patience := 500 * time.Microsecond
		for answered := false; !answered; {
			reused := slices.Clone(creates)
			ctx, cancel := context.WithTimeout(w.ctx, rand.N(patience))
			got, err := w.st.Create(ctx, reused)
			cancel()
			clear(reused)
			patience *= 2
			answered = err == nil
			for i, c := range got {
				if answered = answered && !store.Unknown(c.Err); answered && (c.Err != nil || c.Run != creates[i].Run) {
					w.t.Errorf("create run %s: got %+v", creates[i].Run, c)
					return runs
				}
			}
			if w.ctx.Err() != nil {
				w.t.Errorf("create: %v", err)
				return runs
			}
			if !answered {
				w.again.Add(1)
			}
		}
		runs = append(runs, fresh...)
	}
	return runs
}

// underFaults runs a test on a single server and on a cluster. The connections of the writer fail,
// and the servers forget their scripts, so the client sends scripts a second time from the same
// buffer. The test fails if the store does not contain exactly what the writer has written.
func underFaults(t *testing.T, runs int, test func(w *writer, rounds int)) {
	eachServer(t, func(t *testing.T, url string, addrs []string, dial func(redistest.Harm) redis.UniversalClient) {
		prefix := redistest.Prefix()
		good := openURL(t, with(url, "prefix="+prefix))
		defer good.Close()
		client := dial(faulty(11, 40))
		switch c := client.(type) {
		case *redis.Client:
			c.Options().ContextTimeoutEnabled = true
		case *redis.ClusterClient:
			c.Options().ContextTimeoutEnabled = true
		}
		st, err := redisstore.New(client, redisstore.Config{Prefix: prefix})
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		w := newWriter(t, good, st, runs)
		rounds := 12
		if *everyLayout { // set by make soak
			rounds = 100
		}
		stop := make(chan struct{})
		var flusher sync.WaitGroup
		flusher.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				c := redis.NewClient(&redis.Options{Addr: addrs[n%len(addrs)]})
				if err := c.ScriptFlush(w.ctx).Err(); err != nil && !errors.Is(err, context.Canceled) {
					t.Errorf("script flush: %v", err)
				}
				_ = c.Close()
			}
		})
		test(w, rounds)
		close(stop)
		flusher.Wait()
		w.verify(good)
		t.Logf("%d calls were given up", w.again.Load())
		if w.again.Load() < 50 {
			t.Errorf("%d calls were given up: the test proves nothing", w.again.Load())
		}
	})
}

// TestCommit_ReusesNothingThatIsStillBeingSent proves that a buffer is not reused while it is being
// sent, even if the context is canceled, the connection fails, or a script has to be loaded.
func TestCommit_ReusesNothingThatIsStillBeingSent(t *testing.T) {
	underFaults(t, 60, func(w *writer, rounds int) {
		var all sync.WaitGroup
		for _, together := range []int{1, 10} { // a single commit is sent without a pipeline
			half := w.runs[:30]
			if together == 1 {
				half = w.runs[30:]
			}
			for runs := range slices.Chunk(half, together) {
				all.Go(func() { w.hasty(runs, rounds) })
			}
		}
		all.Wait()
	})
}

// TestCreate_ReusesNothingThatIsStillBeingSent is like
// TestCommit_ReusesNothingThatIsStillBeingSent for creations.
func TestCreate_ReusesNothingThatIsStillBeingSent(t *testing.T) {
	underFaults(t, 1, func(w *writer, rounds int) {
		var all sync.WaitGroup
		var mu sync.Mutex
		for n := range 12 {
			together := []int{1, 10}[n%2]
			all.Go(func() {
				runs := w.hastyCreates(together, rounds)
				mu.Lock()
				defer mu.Unlock()
				w.runs = append(w.runs, runs...)
			})
		}
		all.Wait()
	})
}

// hiding is a hook that returns no error, as the example of redis.Client.AddHook.
type hiding struct{ redis.Hook }

func (hiding) DialHook(next redis.DialHook) redis.DialHook { return next }

func (hiding) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		_ = next(ctx, cmd)
		return nil
	}
}

func (hiding) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		_ = next(ctx, cmds)
		return nil
	}
}

// TestCommit_AnErrorThatAHookHidesIsNotSuccess proves that a commit whose answer was lost is not
// taken for committed if a hook of the client hides the error.
func TestCommit_AnErrorThatAHookHidesIsNotSuccess(t *testing.T) {
	server, prefix := redistest.Shared(t), redistest.Prefix()
	good := openURL(t, with(server.URL(), "prefix="+prefix))
	defer good.Close()
	p := redistest.NewProxy(t, server.Addr)
	client := closing(t, redis.NewClient(&redis.Options{Addr: p.Addr}))
	st, err := redisstore.New(client, redisstore.Config{Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	w := newWriter(t, good, st, 2)
	w.commit(w.runs) // before the first answer is lost
	client.AddHook(hiding{})
	for n := 1; n <= 2; n++ {
		runs := w.runs[:n]
		commits := make([]store.Commit, n)
		for i, r := range runs {
			commits[i] = r.log.Commit(r.fence, r.log.Work()...)
		}
		p.Do(func(bool, []byte) redistest.Verdict { return redistest.Drop })
		answers, err := st.Commit(t.Context(), commits)
		if err == nil {
			t.Errorf("%d commits without an answer: got %+v, want an error", n, answers)
		}
		p.Do(nil)
		w.settle(runs, commits, func() ([]store.Committed, error) { return st.Commit(w.ctx, commits) })
	}
	w.verify(good)
}
