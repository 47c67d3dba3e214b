package workflowtest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/activity"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// incarnation is one incarnation of the worker of an Env, from its start to its end.
type incarnation struct {
	env      *Env
	number   int // number of the incarnation, from 1
	worker   *worker.Worker
	activity *activity.Counter
	dying    atomic.Bool
	dead     atomic.Bool        // requests of the worker do not arrive
	stop     context.CancelFunc // cancels the context of Run
	endSteps context.CancelFunc
	over     chan struct{} // closed when Run has returned
	err      error         // error of Run

	mu       sync.Mutex
	sessions []lease
}

type lease struct {
	partition int
	session   store.SessionID
}

// current returns the latest worker, or nil if none was started.
func (e *Env) current() *incarnation {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.incarnation
}

// startIncarnation starts a worker.
func (e *Env) startIncarnation() {
	e.mu.Lock()
	e.lives++
	l := &incarnation{env: e, number: e.lives, over: make(chan struct{})}
	e.mu.Unlock()
	cfg := worker.Config{Name: "worker", Logger: e.logger, Runs: 1 << 20, Concurrency: 1 << 16, BlockedAfter: blockedAfter, Interceptors: e.options.workerInterceptors}
	if e.virtual() {
		cfg.Heartbeat, cfg.ClaimExpiry = never, 2*never
	}
	steps, endSteps := context.WithCancel(context.Background())
	cfg.BaseContext = func() context.Context { return steps }
	client := workflow.NewClient(&workerStore{inner: e.store, incarnation: l}, workflow.ClientConfig{Logger: e.logger})
	observer := e.observer
	observer.Wrap = e.intercept(l)
	code := (*flow.Registry)(&e.registry)
	code.Observe(observer)
	l.activity = &activity.Counter{}
	l.worker = worker.New(client, cfg)
	kit := l.kit()
	kit.Registry, kit.Chance, kit.Fingerprint, kit.Queues = code, func() float64 { return 0.5 }, "workflowtest", e.options.queues
	if e.virtual() {
		kit.Activity = l.activity
	}
	ctx, stop := context.WithCancel(context.Background())
	l.stop, l.endSteps = stop, endSteps
	l.activity.Begin() // activity of the claim loop, until it waits
	// The worker must be the current one before it can reach a crash point. Otherwise the previous
	// worker would be reaped twice, and this worker would not be reaped.
	e.mu.Lock()
	e.incarnation = l
	e.mu.Unlock()
	go func() {
		defer close(l.over)
		l.err = l.worker.Run(ctx)
	}()
}

// kit returns the kit of the worker.
func (l *incarnation) kit() *flow.Kit { return (*flow.Registry)(l.worker.Registry()).Kit() }

// blockedAfter is the real time that workflow code may take between two durable operations.
const blockedAfter = time.Second

// kill prevents all further effects of the worker: its requests do not arrive, and the code of runs
// does not continue. It returns at once. The caller must call reap afterwards.
func (l *incarnation) kill() {
	if l.dying.Swap(true) {
		return
	}
	l.kit().Kill() // before requests fail, so that the worker does not shut down gracefully
	l.dead.Store(true)
	l.stop()
	l.endSteps()
	c := &l.env.scheduler
	c.mu.Lock()
	for x := range c.executions {
		if x.incarnation != l {
			continue
		}
		switch x.phase {
		case phaseReady:
			x.shift(phaseRunning)
			close(x.begin)
		case phaseEnded:
			x.release()
		}
	}
	c.mu.Unlock()
	l.env.wakeUp()
}

// reap waits until all goroutines of a killed worker have ended. Then it releases the runs of the
// worker, as the expiry of its lease does.
func (l *incarnation) reap() error {
	late := time.After(hang)
	select {
	case <-l.over:
	case <-late:
		return fmt.Errorf("the worker was killed, but does not end: %s", l.hangsIn())
	}
	c := &l.env.scheduler
	c.mu.Lock()
	none := make(chan struct{})
	if len(c.executions) == 0 {
		close(none)
	} else {
		c.none = none
	}
	c.mu.Unlock()
	select {
	case <-none:
	case <-late:
		return fmt.Errorf("the worker was killed, but does not end: %s", l.hangsIn())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.sessions {
		if err := l.env.store.CloseSession(context.Background(), s.partition, s.session); err != nil {
			return fmt.Errorf("take the runs of a killed worker from it: %w", err)
		}
	}
	return nil
}

// hangsIn describes the code of the worker that has not ended.
func (l *incarnation) hangsIn() string {
	c := &l.env.scheduler
	c.mu.Lock()
	defer c.mu.Unlock()
	for x := range c.executions {
		return fmt.Sprintf("attempt %d of step %s goes on although its context has ended: it must watch its context", x.info.Number, x.info.Step)
	}
	if s := l.env.blockedCode(); s != "" {
		return s
	}
	return "the code of a workflow does not return"
}

// dying reports whether the current worker was killed. It becomes false when the next worker
// starts.
func (e *Env) dying() bool {
	l := e.current()
	return l != nil && l.dying.Load()
}

// revive reaps a killed worker and starts the next one. If the current worker is running, it does
// nothing.
func (e *Env) revive() error {
	l := e.current()
	if l != nil && !l.dying.Load() {
		select {
		case <-l.over:
		default:
			return nil
		}
		if !l.dying.Load() { // the worker ended although it was not killed
			return e.failWith(fmt.Errorf("workflowtest: the worker has ended: %w", l.err))
		}
	}
	if l != nil {
		if err := l.reap(); err != nil {
			return e.failWith(err)
		}
	}
	if !e.isClosed() {
		e.startIncarnation()
	}
	return nil
}
