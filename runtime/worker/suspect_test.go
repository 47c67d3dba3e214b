package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// mortal is a worker process that some code may end as os.Exit does, as far as one
// process can show that: from then on the store hears nothing more of it.
type mortal struct {
	w      *world
	name   string
	st     *between
	client *workflow.Client
	dead   atomic.Bool
	end    context.CancelFunc
	lives  context.Context
	worker *worker.Worker
}

// die does not return.
func (m *mortal) die() {
	m.dead.Store(true)
	engine.Kill(m.worker)
	m.end()
}

// fleet restarts workers that die.
type fleet struct {
	w      *world
	cfg    worker.Config
	deaths atomic.Int64
	stop   chan struct{}
	all    sync.WaitGroup
}

// keep runs so many workers, each of which is replaced when it has died. The bindings are
// made for each of them, with what ends it.
func (w *world) keep(workers int, cfg worker.Config, bindings func(die func()) []binding) *fleet {
	f := &fleet{w: w, cfg: cfg, stop: make(chan struct{})}
	for i := range workers {
		f.all.Go(func() {
			for life := 1; f.live(fmt.Sprintf("w%d-%d", i, life), bindings); life++ {
			}
		})
	}
	w.t.Cleanup(func() {
		close(f.stop)
		f.all.Wait()
	})
	return f
}

// live is one life of a worker; it reports whether it was killed.
func (f *fleet) live(name string, bindings func(die func()) []binding) bool {
	m := &mortal{w: f.w, name: name, st: &between{Store: f.w.store}}
	m.lives, m.end = context.WithCancel(context.Background())
	m.st.around = func(ctx context.Context, _ string, _ any, do func() error) error {
		if m.dead.Load() {
			return store.ErrClosed
		}
		return do()
	}
	m.client = workflow.NewClient(m.st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(f.w.logs, nil))})
	cfg := f.cfg
	cfg.Name, cfg.NoHandover, cfg.BaseContext = name, true, func() context.Context { return m.lives }
	m.worker = worker.New(m.client, cfg)
	for _, b := range bindings(m.die) {
		b(m.worker)
	}
	done := make(chan error, 1)
	go func() { done <- m.worker.Run(m.lives) }()
	select {
	case <-done:
	case <-f.stop:
		m.end()
		<-done
	}
	if !m.dead.Load() {
		return false
	}
	f.deaths.Add(1)
	inspector, _ := store.As[store.Inspector](f.w.store)
	snap, err := inspector.Inspect(context.Background())
	if err != nil {
		f.w.t.Error(err)
		return false
	}
	for id, l := range snap.Leases { // nobody has to wait until its lease is past
		if strings.HasPrefix(string(id), name+"/") {
			if err := f.w.store.CloseSession(context.Background(), l.Partition, id); err != nil {
				f.w.t.Error(err)
			}
		}
	}
	return true
}

// crowds are the stores on which a run may kill its workers.
var crowds = map[string]func(t *testing.T) store.Store{
	"memory":                 func(*testing.T) store.Store { return memstore.New() },
	"memory in 3 partitions": stores["memory in 3 partitions"],
	"sqlite":                 stores["sqlite"],
	"redis in 16 partitions": func(t *testing.T) store.Store {
		st, err := redisstore.Open(redistest.Start(t).URL())
		if err != nil {
			t.Fatal(err)
		}
		return st
	},
}

var (
	killerStep = aStep[int, int]("killer.step", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 100}})
	killerFlow = flow[int, int]("killer")
	crowdStep  = aStep[int, int]("crowd.step", shim.Policy{})
	crowdFlow  = flow[int, int]("crowd")
)

// A run ends each process that executes it, as soon as its code or its step begins. Others
// have been started before; their steps take longer than the process lives. They complete, and
// it is poisoned after no more than Recoveries deaths.
func TestREC4_ARunThatKillsItsWorkersTakesNobodyWithIt(t *testing.T) {
	for _, test := range []struct {
		innocents, workers int
		inStep             bool
		takes              time.Duration
	}{
		{1, 1, true, 300 * time.Millisecond},
		{10, 1, false, 100 * time.Millisecond},
		{10, 3, true, 100 * time.Millisecond},
		{200, 1, true, 5 * time.Millisecond},
	} {
		for name, open := range crowds {
			t.Run(fmt.Sprintf("%d beside it, %d workers, in a step %t/%s", test.innocents, test.workers, test.inStep, name), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, open(t), workflow.ClientConfig{})
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				w.ctx = ctx
				var innocent []*workflow.Run[int]
				for n := range test.innocents {
					innocent = append(innocent, start(w, crowdFlow, n))
				}
				guilty := start(w, killerFlow, 0)
				f := w.keep(test.workers, worker.Config{}, func(die func()) []binding {
					return []binding{
						as(crowdFlow, crowdStep.Call),
						crowdStep.as(func(ctx context.Context, n int) (int, error) { return n, pause(ctx, test.takes) }),
						as(killerFlow, func(ctx workflow.Context, n int) (int, error) {
							if !test.inStep {
								die()
								return 0, errors.New("it is dead")
							}
							return killerStep.Call(ctx, n)
						}),
						killerStep.as(func(ctx context.Context, n int) (int, error) {
							die()
							return n, ctx.Err()
						}),
					}
				})
				if e := failure(w, guilty); e.Code != event.CodePoisoned || !containsAll(e.Error(), "died 5 times") {
					t.Errorf("the run that kills: got %v", e)
				}
				for n, run := range innocent {
					if got := result(w, run); got != n {
						t.Errorf("innocent run %d: got %d", n, got)
					}
				}
				if n := f.deaths.Load(); n != 5 {
					t.Errorf("%d workers died, want 5", n)
				}
			})
		}
	}
}
