package flowtest

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Mortal is a worker that its code can end like os.Exit. It simulates this within one process:
// after its death, the store receives no call from the worker.
type Mortal struct {
	w      *World
	name   string
	st     *Between
	client *workflow.Client
	dead   atomic.Bool
	end    context.CancelFunc
	lives  context.Context
	worker *worker.Worker
}

// die kills the worker. It must be called on a goroutine of the worker and does not return there.
func (m *Mortal) die() {
	m.dead.Store(true)
	kitOf(m.worker).Kill()
	m.end()
}

// Fleet runs workers and replaces those that die.
type Fleet struct {
	w      *World
	cfg    worker.Config
	Deaths atomic.Int64
	stop   chan struct{}
	once   sync.Once
	all    sync.WaitGroup
}

// Keep runs the given number of workers and replaces each worker that dies. It calls bindings for
// each new worker, with a function that kills the worker.
func (w *World) Keep(workers int, cfg worker.Config, bindings func(die func()) []Binding) *Fleet {
	f := &Fleet{w: w, cfg: cfg, stop: make(chan struct{})}
	for i := range workers {
		f.all.Go(func() {
			for life := 1; f.live(fmt.Sprintf("w%d-%d", i, life), bindings); life++ {
			}
		})
	}
	w.T.Cleanup(f.Stop)
	return f
}

// Stop stops all workers and waits until they have ended. It is also called at the end of the test.
func (f *Fleet) Stop() {
	f.once.Do(func() { close(f.stop) })
	f.all.Wait()
}

// live runs one worker until it ends, and reports whether the worker was killed.
func (f *Fleet) live(name string, bindings func(die func()) []Binding) bool {
	m := &Mortal{w: f.w, name: name, st: &Between{Store: f.w.Store, ledger: f.w.ledger.another()}}
	m.lives, m.end = context.WithCancel(context.Background())
	m.st.Around = func(_ context.Context, _ string, _ any, do func() error) error {
		if m.dead.Load() {
			return store.ErrClosed
		}
		return do()
	}
	m.client = workflow.NewClient(m.st, workflow.ClientConfig{Logger: f.w.logger(slog.LevelInfo, m.st.ledger)})
	cfg := f.cfg
	cfg.Name, cfg.NoLocalStart, cfg.BaseContext = name, true, func() context.Context { return m.lives }
	m.worker = worker.New(m.client, cfg)
	for _, b := range bindings(m.die) {
		b(m.worker)
	}
	done := make(chan error, 1)
	go func() { done <- m.worker.Run(m.lives) }()
	select {
	case <-done: //nolint:errcheck // it was killed, or not, whatever it says of that
	case <-f.stop:
		m.end()
		<-done //nolint:errcheck // it was stopped
	}
	if !m.dead.Load() {
		return false
	}
	f.Deaths.Add(1)
	inspector, ok := store.As[store.Inspector](f.w.Store)
	if !ok {
		f.w.T.Error("the store does not show its leases")
		return false
	}
	snap, err := inspector.Inspect(context.Background())
	if err != nil {
		f.w.T.Error(err)
		return false
	}
	for id, l := range snap.Leases { // otherwise tests wait until the leases expire
		if strings.HasPrefix(string(id), name+"/") {
			if err := f.w.Store.CloseSession(context.Background(), l.Partition, id); err != nil {
				f.w.T.Error(err)
			}
		}
	}
	return true
}
