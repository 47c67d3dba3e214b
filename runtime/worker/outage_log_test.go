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
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// severed is a store that does not answer while it is cut off.
type severed struct {
	store.Store
	cut   atomic.Bool
	tries atomic.Int64 // while it was
}

func (s *severed) Unwrap() store.Store { return s.Store }

// ask calls f unless the store is cut off.
func ask[T any](s *severed, f func() (T, error)) (v T, err error) {
	if s.cut.Load() {
		s.tries.Add(1)
		return v, errOutage
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

// oneOutage checks what a worker has logged of one outage, of so many tries, and that
// nothing else was logged at Warn or above.
func (w *world) oneOutage(causes int, tries int64) {
	w.t.Helper()
	w.eventually("the store works again", func() bool { return len(w.lines("store works again")) > 0 })
	if n := len(w.lines("store works again")); n != 1 {
		w.t.Errorf("the store works again %d times", n)
	}
	begun := w.lines("store fails: trying again")
	if most := causes * bits.Len64(uint64(tries)); len(begun) < 1 || len(begun) > most {
		w.t.Errorf("%d lines say that the store fails, want at most %d for %d tries and %d causes:\n%s", len(begun), most, tries, causes, strings.Join(begun, ""))
	}
	for line := range strings.Lines(w.logs.String()) {
		if (strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN")) && !strings.Contains(line, `msg="store `) && !strings.Contains(line, `msg="the store is not set up`) {
			w.t.Errorf("another line: %s", line)
		}
	}
}

func TestLog_AnOutageIsALineAtPowersOfTwoForAllPartitions(t *testing.T) {
	kinds := map[string]func(t *testing.T) store.Store{
		"memory in 64 partitions": func(*testing.T) store.Store { return memstore.NewWith(memstore.Config{Partitions: 64}) },
		"sqlite":                  stores["sqlite"],
		"redis": func(t *testing.T) store.Store {
			st, err := redisstore.Open(redistest.Start(t).URL())
			order(t, err)
			return st
		},
	}
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := &severed{Store: open(t)}
			w := newWorld(t, st, workflow.ClientConfig{})
			w.takesLong()
			held := newBarrier()
			defer held.open()
			w.work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Hour}, as(attackOnce, attackStep.Call),
				attackStep.as(func(ctx context.Context, n int) (int, error) {
					held.pass(ctx)
					return 2 * n, nil
				}))
			run := start(w, attackOnce, 4)
			w.await("the step", held.arrived)
			st.cut.Store(true)
			held.open()
			w.eventually("many requests fail", func() bool { return st.tries.Load() >= 200 })
			st.cut.Store(false)
			if got := result(w, run); got != 8 {
				t.Errorf("got %d", got)
			}
			w.oneOutage(1, st.tries.Load())
		})
	}
}

// The worker of this test has a client of its own: what is asked here is not its doing.
func TestLog_ARevokedPasswordIsALineAtPowersOfTwo(t *testing.T) {
	server := redistest.Start(t)
	admin, err := redisstore.Open(server.URL())
	order(t, err)
	w := newWorld(t, admin, workflow.ClientConfig{})
	w.takesLong()
	root := server.Client(t)
	do := func(args ...any) {
		t.Helper()
		order(t, root.Do(w.ctx, args...).Err())
	}
	do("ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all")
	st, err := redisstore.Open(strings.Replace(server.URL(), "redis://", "redis://worker:secret@", 1))
	order(t, err)
	defer st.Close()
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(w.logs, nil))})
	defer client.Close()
	theirs := *w
	theirs.client = client
	r := theirs.work(worker.Config{Heartbeat: 10 * time.Millisecond, ClaimExpiry: time.Hour}, as(attackOnce, attackStep.Call), attackStep.as(twice))
	defer r.stop()
	result(w, start(w, attackOnce, 1))
	do("ACL", "SETUSER", "worker", "resetpass", ">other")
	do("CLIENT", "KILL", "USER", "worker")
	tries := func() int { return len(w.lines("store fails: trying again")) }
	w.eventually("many requests fail", func() bool { return tries() >= 8 }) // 128 of one cause
	do("ACL", "SETUSER", "worker", "resetpass", ">secret")
	result(w, start(w, attackOnce, 2))
	w.oneOutage(4, 1<<14)
}

func TestLog_AWorkerSaysInOneLineWhatTheDoctorWarnsOf(t *testing.T) {
	server := redistest.Start(t, "--save", "", "--maxmemory-policy", "allkeys-lru")
	st, err := redisstore.Open(server.URL())
	order(t, err)
	w := newWorld(t, st, workflow.ClientConfig{})
	w.work(worker.Config{}, echoes)
	w.oneLine("the store is not set up as it should be", "level=WARN", "eviction", "maxmemory-policy noeviction", "persistence")
}

func TestLog_AWorkerThatMayNotLookSaysNothingAndWorks(t *testing.T) {
	server := redistest.Start(t, "--appendonly", "yes")
	root := server.Client(t)
	order(t, root.Do(t.Context(), "ACL", "SETUSER", "worker", "on", ">secret", "~*", "&*", "+@all", "-config", "-info").Err())
	st, err := redisstore.Open(strings.Replace(server.URL(), "redis://", "redis://worker:secret@", 1))
	order(t, err)
	w := newWorld(t, st, workflow.ClientConfig{})
	r := w.work(worker.Config{}, echoes)
	result(w, start(w, echo, "x"))
	r.stop()
	if lines := w.lines("the store is not set up as it should be"); len(lines) > 0 {
		t.Errorf("got %s", lines)
	}
}
