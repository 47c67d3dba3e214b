package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
	"github.com/flowgen/flowgen/runtime/worker/internal/outbox"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Worker executes runs. Create one with [New], register workflows and steps, and call [Worker.Run].
type Worker struct {
	*env
	loop      *loopParts
	outage    *outage.Log
	registry  *workflow.Registry
	code      engine.Registry // the code of registry, except in a test kit
	queues    []string        // served in addition to the configured queues
	runs      *runs
	leases    lease.Set
	outboxes  []*outbox.Relay // by partition
	claimer   *claimer
	committer *committer
	loader    *loader
	steps     *steps
	executors *executors
	unserved  []*unserved // by partition
	declares  bool        // creates the schedules of directives and writes the catalogue
	watchdog  *watchdog
	ran       atomic.Bool
}

// New returns a worker on the client's store. It panics if a field of the
// configuration is out of range.
func New(c *workflow.Client, cfg Config) *Worker {
	if c == nil {
		panic("worker: New: the client is nil: make one with workflow.NewClient")
	}
	client, registry := engine.ClientOf(c), &workflow.Registry{}
	s, logger := client.Store(), client.Logger()
	cfg = cfg.withDefaults(logger)
	if cfg.ClaimExpiry < 2*cfg.Heartbeat {
		panic(fmt.Sprintf("worker: New: ClaimExpiry %v is less than twice Heartbeat %v: a worker that is well would be taken for dead", cfg.ClaimExpiry, cfg.Heartbeat))
	}
	failures := outage.New(cfg.Logger, slog.String("worker", cfg.Name), 7*min(cfg.Heartbeat, 5*time.Second)+time.Second)
	e := &env{
		cfg: cfg, store: outage.Watch(s, failures), clock: s.Clock(), log: cfg.Logger, base: context.Background(), chance: rand.Float64,
		lookAgain: lookAgain, waitMost: waitMost, obeys: hardStop,
	}
	if cfg.BaseContext != nil {
		e.base = cfg.BaseContext()
	}
	e.damage, _ = store.As[store.DamageTeller](s)
	e.io, e.cutOff = context.WithCancel(context.Background())
	w := &Worker{env: e, outage: failures, registry: registry, code: engine.RegistryOf(registry), declares: true}
	w.runs = newRuns(e)
	w.steps = &steps{env: e, client: client, slots: newSlots(cfg.Concurrency), all: map[*attempt]struct{}{}}
	w.executors = &executors{ready: newQueue[runnable]()}
	w.claimer = newClaimer(e, w.runs, w.newLoop)
	w.committer, w.loader = newCommitter(e, w.claimer.silent, w.claimer.adoptNext), newLoader(e)
	w.watchdog = newWatchdog(e, w.executors, w.steps.slots)
	w.loop = &loopParts{
		unbounded: &unbounded{env: e},
		client:    client, code: w.code, runs: w.runs, committer: w.committer, loader: w.loader, steps: w.steps, ready: w.executors.ready,
		outbox: func(partition int, sender event.RunID, sent []store.Outgoing, all bool) {
			w.outboxes[partition].Sent(sender, sent, all)
		},
	}
	return w
}

// newLoop returns the inputs of a new run loop.
func (w *Worker) newLoop(run event.RunID) *inputs { return &newRunLoop(w.env, w.loop, run).inputs }

// Registry returns the registry in which generated Register functions register workflows and steps.
func (w *Worker) Registry() *workflow.Registry { return w.registry }

// Run creates or updates the schedules that directives declare, and works until ctx ends. Then it
// claims no more runs, lets running steps continue for the grace period, gives its runs back and
// returns nil. Run waits for a store that cannot be reached, also at the start. It logs an outage
// once, then at growing intervals, and at its end. Run returns an error if nothing is registered,
// if the store refuses the worker at the start (see [store.ErrRefused]), if it is not a flowgen
// store (see [store.ErrForeign]) or has the format of another release, or if it is closed. Run must
// be called at most once.
func (w *Worker) Run(ctx context.Context) error {
	err := w.run(ctx)
	if err != nil { // the caller may drop it, as a go statement does
		w.log.Error("worker does not run", "worker", w.cfg.Name, "error", err)
	}
	return err
}

func (w *Worker) run(ctx context.Context) error {
	if w.ran.Swap(true) {
		return errors.New("worker: Run was called twice: make a new worker")
	}
	w.code.Seal()
	w.routes = w.servedRoutes()
	w.serves = make(map[store.Route]bool, len(w.routes))
	for _, c := range w.routes {
		w.serves[c] = true
	}
	if len(w.routes) == 0 {
		return errors.New("worker: nothing is registered: call the generated Register function before Run")
	}
	if w.fit == "" {
		w.fit = fingerprint(w.code)
		w.build = w.fit[:12]
	}
	w.partition()
	if err := w.leases.Open(ctx); err != nil {
		w.leases.Close(context.WithoutCancel(ctx), w.log)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // stopped before it began
		}
		return fmt.Errorf("worker: open session: %w", err)
	}
	for p, l := range w.leases {
		if l.Current() != "" { // the partition answers
			w.loop.unbounded.look(ctx, p)
		}
	}
	purging, stopPurging := context.WithCancel(ctx)
	w.startGoroutines(purging)
	w.consult(purging, w.leases.Answer)

	leave := func() {}
	if !w.cfg.NoHandover {
		leave = w.loop.client.AddHost(host{w})
	}
	failed := w.claimer.run(ctx)
	leave()
	stopPurging()
	w.stop()
	return failed
}

// partition creates the parts that exist once per partition.
func (w *Worker) partition() {
	told := &sync.Map{}
	for p := range w.store.Partitions() {
		relay := outbox.New(outbox.Params{
			Store: w.store, Clock: w.clock, Log: w.log, Activity: w.activity, Partition: p, Name: w.cfg.Name, Heartbeat: w.cfg.Heartbeat,
			Silent: w.claimer.silent, Paused: w.loop.client.SetAside, Rerun: w.loop.client.Rerun,
		})
		look := &unserved{env: w.env, outage: w.outage, partition: p, claim: w.claimer.claimByName, told: told}
		l := lease.New(lease.Params{
			Store: w.store, Clock: w.clock, Log: w.log, Partition: p, Worker: w.cfg.Name, Expiry: w.cfg.ClaimExpiry, Heartbeat: w.cfg.Heartbeat,
			Routes: w.routes, Fingerprint: w.fit, Limits: permits.Defaults(p, w.store.Partitions()), Owner: w.runs, OnHeartbeat: func(ctx context.Context, answer store.Heartbeat) {
				relay.Heard(answer.Outbox)
				w.tellDamage()
				w.logRestored(p, answer.Restored)
				w.loop.unbounded.look(ctx, p)
				look.look(ctx, answer.Unserved)
			},
		})
		w.outboxes, w.leases = append(w.outboxes, relay), append(w.leases, l)
		w.unserved = append(w.unserved, look)
		w.claimer.sources = append(w.claimer.sources, &source{Lease: l})
	}
	w.loop.leases = w.leases
}

func (w *Worker) startGoroutines(purging context.Context) {
	for range max(runtime.GOMAXPROCS(0), 2) {
		w.executors.start()
	}
	w.committer.start()
	w.loader.start()
	for p, l := range w.leases {
		go l.Run()
		go w.outboxes[p].Run()
		w.outboxes[p].Notify() // records of earlier workers
	}
	w.work.Go(func() { (&purger{w.env, w.outage}).run(purging) })
	if w.declares && w.code.Scheduled() {
		began := w.clock.Now()
		w.work.Go(func() { w.declare(purging, began) })
	}
	if w.declares {
		w.work.Go(func() { w.describe(purging) })
	}
	go w.watchdog.run()
}

func (w *Worker) servedRoutes() []store.Route {
	var all []store.Route
	seen := map[store.Route]bool{}
	add := func(c store.Route) {
		if !seen[c] {
			seen[c] = true
			all = append(all, c)
		}
	}
	for _, c := range w.code.WorkflowNames() {
		queues := w.cfg.Queues
		if len(queues) == 0 {
			queues = []string{c.Queue, workflow.DefaultQueue}
		}
		for _, q := range slices.Concat(queues, w.queues) {
			add(store.Route{Queue: q, Workflow: c.Workflow})
		}
	}
	for _, c := range slices.Clone(all) { // runs that hold a token or permits, or that start runs by the clock, use the queue of those runs
		add(store.Route{Queue: c.Queue, Workflow: event.HookRun})
		add(store.Route{Queue: c.Queue, Workflow: event.PermitRun})
		add(store.Route{Queue: c.Queue, Workflow: event.ScheduleRun})
	}
	for _, name := range w.code.LimitedSteps() { // they are executed on the queue of the run that calls them
		for _, c := range slices.Clone(all) {
			add(store.Route{Queue: c.Queue, Workflow: event.StepRun(name)})
		}
	}
	for _, c := range w.code.StepRuns(w.cfg.Queues) {
		add(c)
	}
	if len(w.queues) > 0 {
		for _, c := range w.code.StepRuns(w.queues) {
			add(c)
		}
	}
	return all
}
