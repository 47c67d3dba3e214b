package repairtest

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

const (
	// patience is the maximum duration of a wait.
	patience = 20 * time.Second
	// lease is longer than the virtual time that passes in a test.
	lease = 80_000 * time.Hour
)

// World is a store with a virtual clock, and a client of the store.
type World struct {
	T      *testing.T
	Ctx    context.Context
	Store  store.Store
	Client *workflow.Client
	Clock  *storetest.Clock
	// Dump returns all data of the store, for comparison. It may be nil if a snapshot shows all
	// data.
	Dump func() any

	ids storetest.IDs
}

// New returns a world for a store that uses the given clock. The store and the client are closed at
// the end of the test.
func New(t *testing.T, st store.Store, clock *storetest.Clock) *World {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	w := &World{T: t, Ctx: ctx, Store: st, Clock: clock}
	w.Client = workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(w.Client.Close(), st.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return w
}

// Work starts a worker and returns a function that stops it.
func (w *World) Work() (stop func()) {
	w.T.Helper()
	// Claims must not expire when a test advances the clock.
	wk := worker.New(w.Client, worker.Config{Heartbeat: lease / 4, ClaimExpiry: lease})
	register(wk)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- wk.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			w.T.Errorf("worker: %v", err)
		}
	}
	w.T.Cleanup(stop)
	return stop
}

// until waits until ok returns true. From time to time it advances the clock by six seconds,
// because an alarm that is computed while the clock is advanced may be too late.
func (w *World) until(what string, ok func() (bool, error)) {
	w.T.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	for n := 1; ; n++ {
		done, err := ok()
		if err != nil {
			w.T.Fatalf("wait until %s: %v", what, err)
		}
		if done {
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-deadline.C:
			w.T.Fatalf("waited in vain until %s: %+v", what, w.records())
		}
		if n%100 == 0 {
			w.Clock.Advance(6 * time.Second)
		}
	}
}

func (w *World) records() []store.Record {
	var all []store.Record
	for _, r := range w.runs() {
		all = append(all, r.Record)
	}
	return all
}

// Must returns v. It fails the test if err is not nil.
func Must[T any](t testing.TB, v T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// examine returns the state of all partitions of the store.
func (w *World) examine() []*store.PartitionState {
	w.T.Helper()
	r := able[store.Rebuilder](w)
	var all []*store.PartitionState
	for p := range w.Store.Partitions() {
		part, err := r.ReadPartition(w.Ctx, p)
		if err != nil {
			w.T.Fatal(err)
		}
		all = append(all, part)
	}
	return all
}

// runs returns the states of all runs in the store.
func (w *World) runs() map[event.RunID]*store.RunState {
	w.T.Helper()
	all := map[event.RunID]*store.RunState{}
	for _, part := range w.examine() {
		maps.Copy(all, part.Snapshot.Runs)
	}
	return all
}

// Partition returns the partition of a run.
func (w *World) Partition(run event.RunID) int { return int(run.Slot()) % w.Store.Partitions() }

// Record returns the record of a run.
func (w *World) Record(run event.RunID) store.Record {
	w.T.Helper()
	got, err := w.Store.Load(w.Ctx, []store.Load{{Run: run, Limit: -1}})
	if err == nil {
		err = got[0].Err
	}
	if err != nil {
		w.T.Fatalf("read run %s: %v", run, err)
	}
	return got[0].Record
}
