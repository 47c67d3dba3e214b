package redisstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/store"
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

// TestCommit_ReusesNothingThatIsStillBeingSent proves that a buffer is not reused while it is being
// sent, even if the context is canceled, the connection fails, or a script has to be loaded.
func TestCommit_ReusesNothingThatIsStillBeingSent(t *testing.T) {
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
		w := newWriter(t, good, st, 60)
		rounds := 12
		if *everyLayout { // set by make soak
			rounds = 100
		}
		stop := make(chan struct{})
		var flusher, all sync.WaitGroup
		flusher.Go(func() { // flushes the scripts, so the client sends them a second time from the same buffer
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
		for runs := range slices.Chunk(w.runs, 10) {
			all.Go(func() { w.hasty(runs, rounds) })
		}
		all.Wait()
		close(stop)
		flusher.Wait()
		w.verify(good)
		t.Logf("%d calls were given up", w.again.Load())
		if w.again.Load() < 50 {
			t.Errorf("%d calls were given up: the test proves nothing", w.again.Load())
		}
	})
}
