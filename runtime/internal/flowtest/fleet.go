package flowtest

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Fleet runs workers and replaces those that die. The code of a worker can end it like os.Exit:
// after its death, the store receives no call from the worker.
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
	var dead atomic.Bool
	ctx, end := context.WithCancel(context.Background())
	st := &Between{Store: f.w.Store, ledger: f.w.ledger.another()}
	st.Around = func(_ context.Context, _ string, _ any, do func() error) error {
		if dead.Load() {
			return store.ErrClosed
		}
		return do()
	}
	cfg := f.cfg
	cfg.Name, cfg.NoLocalStart, cfg.BaseContext = name, true, func() context.Context { return ctx }
	w := worker.New(workflow.NewClient(st, workflow.ClientConfig{Logger: f.w.logger(slog.LevelInfo, st.ledger), Codec: testCodec(nil)}), cfg)
	die := func() {
		dead.Store(true)
		kitOf(w).Kill()
		end()
	}
	for _, b := range bindings(die) {
		b(w)
	}
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	select {
	case <-done: //nolint:errcheck // it was killed, or not, whatever it says of that
	case <-f.stop:
		end()
		<-done //nolint:errcheck // it was stopped
	}
	if !dead.Load() {
		return false
	}
	f.Deaths.Add(1)
	if err := f.w.closeSessions(context.Background(), name+"/"); err != nil { // otherwise tests wait until the leases expire
		f.w.T.Error(err)
		return false
	}
	return true
}
