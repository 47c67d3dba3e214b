//go:build !inmemory

package worker_test

import (
	"context"
	"log/slog"
	"math/bits"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// severed is a store that does not answer while cut is set.
type severed struct {
	store.Store
	cut   atomic.Bool
	tries atomic.Int64 // number of calls while cut was set
}

func (s *severed) Unwrap() store.Store { return s.Store }

// ask calls f, or returns an error if the store is cut off.
func ask[T any](s *severed, f func() (T, error)) (v T, err error) {
	if s.cut.Load() {
		s.tries.Add(1)
		return v, flowtest.ErrOutage
	}
	return f()
}

func (s *severed) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	return ask(s, func() (store.Claimed, error) { return s.Store.Claim(ctx, c) })
}

func (s *severed) Heartbeat(ctx context.Context, partition int, id store.SessionID) (store.Heartbeat, error) {
	return ask(s, func() (store.Heartbeat, error) { return s.Store.Heartbeat(ctx, partition, id) })
}

func (s *severed) Commit(ctx context.Context, c []store.Commit) ([]store.Committed, error) {
	return ask(s, func() ([]store.Committed, error) { return s.Store.Commit(ctx, c) })
}

func (s *severed) Load(ctx context.Context, l []store.Load) ([]store.Loaded, error) {
	return ask(s, func() ([]store.Loaded, error) { return s.Store.Load(ctx, l) })
}

func (s *severed) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	return ask(s, func() (store.Woken, error) { return s.Store.Wait(ctx, w) })
}

func (s *severed) Publish(ctx context.Context, run event.RunID, f store.Fence, p []store.Publication) error {
	_, err := ask(s, func() (int, error) { return 0, s.Store.Publish(ctx, run, f, p) })
	return err
}

func TestLog_AnOutageIsALineAtPowersOfTwoForAllPartitions(t *testing.T) {
	kinds := map[string]func(t *testing.T) store.Store{
		"memory in 64 partitions": func(*testing.T) store.Store { return memstore.NewWith(memstore.Config{Partitions: 64}) },
		"sqlite":                  flowtest.Stores["sqlite"],
		"redis": func(t *testing.T) store.Store {
			st, err := redisstore.Open(redistest.Start(t).URL())
			flowtest.Order(t, err)
			return st
		},
	}
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := &severed{Store: open(t)}
			w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
			w.TakesLong()
			held := newBarrier()
			defer held.open()
			w.Work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Hour}, flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call),
				flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
					held.pass(ctx)
					return 2 * n, nil
				}))
			run := flowtest.Start(w, flowtest.AttackOnce, 4)
			w.Await("the step", held.arrived)
			st.cut.Store(true)
			held.open()
			w.Eventually("many requests fail", func() bool { return st.tries.Load() >= 200 })
			st.cut.Store(false)
			if got := flowtest.Result(w, run); got != 8 {
				t.Errorf("got %d", got)
			}
			oneOutage(w, 1, st.tries.Load())
		})
	}
}

// TestLog_ARevokedPasswordIsALineAtPowersOfTwo proves that a revoked password is logged at powers
// of two of the number of failed requests. The worker has its own client, so requests of the test
// are not counted.
func TestLog_ARevokedPasswordIsALineAtPowersOfTwo(t *testing.T) {
	server := redistest.Start(t)
	admin, err := redisstore.Open(server.URL())
	flowtest.Order(t, err)
	w := flowtest.NewWorld(t, admin, workflow.ClientConfig{})
	w.TakesLong()
	root := server.Client(t)
	do := func(args ...any) {
		t.Helper()
		flowtest.Order(t, root.Do(w.Ctx, args...).Err())
	}
	do("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all")
	st, err := redisstore.Open(strings.Replace(server.URL(), "redis://", "redis://worker:secret@", 1))
	flowtest.Order(t, err)
	defer st.Close()
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(w.Logs, nil))})
	defer client.Close()
	theirs := *w
	theirs.Client = client
	r := theirs.Work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Hour}, flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call), flowtest.AttackStep.As(twice))
	defer r.Stop()
	flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, 1))
	do("ACL", "SETUSER", "worker", "resetpass", ">other")
	do("CLIENT", "KILL", "USER", "worker")
	tries := func() int { return len(w.Lines("store fails: retrying")) }
	w.Eventually("many requests fail", func() bool { return tries() >= 8 }) // 128 requests with the same cause
	do("ACL", "SETUSER", "worker", "resetpass", ">secret")
	flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, 2))
	oneOutage(w, 4, 1<<14)
}

func TestLog_AWorkerSaysInOneLineWhatTheDoctorWarnsOf(t *testing.T) {
	server := redistest.Start(t, "--save", "", "--maxmemory-policy", "allkeys-lru")
	st, err := redisstore.Open(server.URL())
	flowtest.Order(t, err)
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Work(worker.Config{}, flowtest.Echoes)
	w.OneLine("the store is not set up as it should be", "level=WARN", "eviction", "maxmemory-policy noeviction", "persistence")
}

func TestLog_AWorkerThatMayNotLookSaysNothingAndWorks(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes")
	root := server.Client(t)
	flowtest.Order(t, root.Do(t.Context(), "ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all", "-config", "-info").Err())
	st, err := redisstore.Open(strings.Replace(server.URL(), "redis://", "redis://worker:secret@", 1))
	flowtest.Order(t, err)
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	r := w.Work(worker.Config{}, flowtest.Echoes)
	flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "x"))
	r.Stop()
	if lines := w.Lines("the store is not set up as it should be"); len(lines) > 0 {
		t.Errorf("got %s", lines)
	}
}

// oneOutage fails the test unless a worker has logged one outage, with at most one line for each
// cause and each doubling of tries. It also fails the test if another warning or error was logged.
func oneOutage(w *flowtest.World, causes int, tries int64) {
	w.T.Helper()
	w.Eventually("the store works again", func() bool { return len(w.Lines("store works again")) > 0 })
	if n := len(w.Lines("store works again")); n != 1 {
		w.T.Errorf("the store works again %d times", n)
	}
	begun := w.Lines("store fails: retrying")
	if most := causes * bits.Len64(uint64(tries)); len(begun) < 1 || len(begun) > most {
		w.T.Errorf("%d lines say that the store fails, want at most %d for %d tries and %d causes:\n%s", len(begun), most, tries, causes, strings.Join(begun, ""))
	}
	for line := range strings.Lines(w.Logs.String()) {
		if (strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN")) && !strings.Contains(line, `msg="store `) && !strings.Contains(line, `msg="the store is not set up`) {
			w.T.Errorf("another line: %s", line)
		}
	}
}
