//go:build !inmemory

package worker_test

import (
	"errors"
	"math/bits"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestREC10_AWorkerThatIsStartedWhileTheServerIsDownWorksOnceItIsThere proves that a worker waits
// for a store that cannot be reached, and works without a restart once the store answers.
func TestREC10_AWorkerThatIsStartedWhileTheServerIsDownWorksOnceItIsThere(t *testing.T) {
	for _, parameters := range []string{"", "?partitions=1"} {
		t.Run(parameters, func(t *testing.T) {
			server := redistest.Start(t, "--appendonly", "yes")
			server.Kill()
			st, err := store.Open(t.Context(), server.URL()+parameters)
			flowtest.Order(t, err)
			w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
			w.TakesLong()
			r := w.Work(worker.Config{Heartbeat: 50 * time.Millisecond, ClaimExpiry: time.Hour}, flowtest.Echoes)
			fails := func() []string { return w.Lines("store fails: retrying") }
			w.Eventually("the worker says that it cannot reach the store", func() bool { return len(fails()) >= 2 })
			server.Restart(t)
			if got := flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "x")); got != "x" {
				t.Errorf("got %q", got)
			}
			w.Eventually("the worker says that it is over", func() bool { return len(w.Lines("store works again")) > 0 })
			r.Stop()
			if n := len(fails()); n > 2*bits.Len(1<<12) {
				t.Errorf("%d lines:\n%s", n, strings.Join(fails(), ""))
			}
			for line := range strings.Lines(w.Logs.String()) {
				if strings.Contains(line, "level=ERROR") && !strings.Contains(line, `msg="store fails`) {
					t.Errorf("another line: %s", line)
				}
			}
		})
	}
}

// TestREC10_AWorkerThatTheStoreRefusesDoesNotStart proves that Run returns an error at once if
// waiting cannot remove its cause.
func TestREC10_AWorkerThatTheStoreRefusesDoesNotStart(t *testing.T) {
	server := redistest.Start(t)
	root := server.Client(t)
	for name, tt := range map[string]struct {
		url    string
		refuse func(err error) bool
	}{
		"wrong password": {strings.Replace(server.URL(), "redis://", "redis://worker:wrong@", 1), func(err error) bool { return errors.Is(err, store.ErrRefused) }},
		"no permission":  {strings.Replace(server.URL(), "redis://", "redis://reader:secret@", 1), func(err error) bool { return errors.Is(err, store.ErrRefused) }},
		"not a store":    {server.URL() + "?prefix=other", func(err error) bool { return errors.Is(err, store.ErrForeign) }},
	} {
		t.Run(name, func(t *testing.T) {
			flowtest.Order(t, root.Do(t.Context(), "ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all").Err())
			flowtest.Order(t, root.Do(t.Context(), "ACL", "SETUSER", "reader", "on", ">secret", "~*", "&*", "+@read").Err())
			flowtest.Order(t, root.Set(t.Context(), "{other:0}:format", "of something else", 0).Err())
			st, err := store.Open(t.Context(), tt.url)
			flowtest.Order(t, err)
			w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
			r := worker.New(w.Client, worker.Config{})
			flowtest.Echoes(r)
			if err := r.Run(w.Ctx); !tt.refuse(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestLog_AnOutageIsALineAtPowersOfTwoForAllWhoWait proves that a client logs an outage like a
// worker, however many callers wait for runs.
func TestLog_AnOutageIsALineAtPowersOfTwoForAllWhoWait(t *testing.T) {
	const waiters = 50
	st := &severed{Store: memstore.New()}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.TakesLong()
	run := flowtest.Start(w, flowtest.Echo, "x")
	st.cut.Store(true)
	var all sync.WaitGroup
	for range waiters {
		all.Go(func() {
			if got, err := run.Result(w.Ctx); got != "x" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
	w.Eventually("all have failed often", func() bool { return st.tries.Load() >= 6*waiters })
	st.cut.Store(false)
	w.Work(worker.Config{}, flowtest.Echoes)
	all.Wait()
	w.Eventually("it is over", func() bool { return len(w.Lines("store works again")) > 0 })
	oneOutage(w, 1, st.tries.Load())
}
