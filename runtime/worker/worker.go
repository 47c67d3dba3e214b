package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/activity"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/rates"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/internal/sealed"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/alerting"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
	"github.com/flowgen/flowgen/runtime/worker/internal/outbox"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Worker executes runs. Create one with [New], register workflows and steps, and call [Worker.Run].
type Worker struct {
	*env
	client    *workflow.Client
	loop      *loopParts
	outage    *outage.Log
	registry  *workflow.Registry
	code      *flow.Registry // the code in registry, or the code of a test kit
	queues    []string       // queues to serve in addition to the configured ones
	runs      *runs
	leases    lease.Set
	outboxes  []*outbox.Relay // indexed by partition
	claimer   *claimer
	committer *committer
	loader    *loader
	steps     *steps
	executors *executors
	unserved  []*unserved // indexed by partition
	declares  bool        // whether the worker creates the schedules of directives and writes the catalogue
	watchdog  *watchdog
	alerting  *alerting.Alerting // nil without rules and targets
	// dispatches is nil unless the worker executes nothing, and offers runs to functions.
	dispatches *dispatch
	ran        atomic.Bool
	vitals     vitals
}

// New returns a worker on the client's store. It panics if the configuration is invalid; see
// [Config.Check].
func New(c *workflow.Client, cfg Config) *Worker {
	if c == nil {
		panic("worker: New: the client is nil: create one with workflow.NewClient")
	}
	client, registry := (*flow.Client)(c).Engine(), &workflow.Registry{}
	s, logger := client.Store(), client.Logger()
	if err := cfg.Check(); err != nil {
		panic("worker: New: " + err.Error())
	}
	cfg = cfg.withDefaults(logger)
	failures := outage.New(cfg.Logger, slog.String("worker", cfg.Name), 7*min(cfg.Heartbeat, 5*time.Second)+time.Second)
	e := &env{
		cfg: cfg, store: outage.Watch(s, failures), clock: s.Clock(), log: cfg.Logger, base: context.Background(), chance: rand.Float64,
		meter: rates.NewMeter(time.Now), recheck: recheck, waitMost: waitMost, obeys: hardStop, stuckAfter: StuckAfter,
		moves: movesEvery, movable: wait.NewNotifier(),
	}
	if cfg.BaseContext != nil {
		e.base = cfg.BaseContext()
	}
	e.damage, _ = store.As[store.DamageTeller](s)
	e.io, e.cutOff = context.WithCancel(context.Background())
	w := &Worker{env: e, client: c, outage: failures, registry: registry, code: (*flow.Registry)(registry), declares: true}
	w.runs = newRuns(e)
	w.steps = &steps{env: e, client: client, slots: newSlots(cfg.Concurrency), all: map[*attempt]struct{}{}, timeouts: newTimeouts(e.clock), interceptors: newInterceptors(cfg.Interceptors)}
	w.executors = &executors{ready: newQueue[runnable]()}
	w.claimer = newClaimer(e, w.runs, func(run event.RunID) *inputs { return newRunLoop(e, w.loop, run, nil) })
	w.committer, w.loader = newCommitter(e, w.claimer.silent, w.claimer.adoptNext), newLoader(e)
	w.watchdog = newWatchdog(e, w.executors, w.steps.slots)
	w.loop = &loopParts{
		unbounded: &unbounded{env: e},
		client:    client, runs: w.runs, committer: w.committer, loader: w.loader, steps: w.steps, ready: w.executors.ready,
		outbox: func(partition int, sender event.RunID, sent []store.Outgoing, all bool) {
			w.outboxes[partition].Sent(sender, sent, all)
		},
	}
	if len(cfg.Observers) > 0 {
		w.loop.observers = newObservers(e)
	}
	w.setAlerts(c)
	kit := w.code.Kit()
	kit.Kill, kit.Slots, kit.Invoker = func() { w.killed.Store(true) }, w.steps.slots.taken, invoker{w}
	return w
}

// setAlerts adds what the worker needs for alerts. Without rules and targets it needs nothing.
func (w *Worker) setAlerts(c *workflow.Client) {
	alerts := &w.cfg.Alerts
	if len(alerts.Rules)+len(alerts.Targets) == 0 {
		return
	}
	w.alerting = alerting.New(alerting.Params{Config: *alerts, Client: c, Store: w.store, Log: w.log, Worker: w.cfg.Name, Chance: w.chance})
	if len(alerts.Targets) == 0 {
		return
	}
	w.alerting.Register(w)
	w.cfg.AtOnce = maps.Clone(w.cfg.AtOnce)
	for _, route := range w.alerting.Routes() {
		if w.cfg.AtOnce == nil {
			w.cfg.AtOnce = map[string]int{}
		}
		if w.cfg.AtOnce[route.Queue] == 0 {
			w.cfg.AtOnce[route.Queue] = alerting.AtOnce
		}
	}
}

// Registry returns the registry in which generated Register functions register workflows and steps.
func (w *Worker) Registry() *workflow.Registry { return w.registry }

// Run creates or updates the schedules that directives declare, and executes runs until ctx ends.
// Then it claims no more runs, permits running steps to continue for the grace period, gives its
// runs back and returns nil. If the store cannot be reached, Run waits, even at the start. It logs
// an outage once, then at growing intervals, and at its end.
//
// Run returns an error if nothing is registered, or if the store refuses the worker at the start
// (see [store.ErrRefused]). It also returns an error if the store is not a flowgen store (see
// [store.ErrForeign]), has the format of another release, or is closed. Run must be called at most
// once.
func (w *Worker) Run(ctx context.Context) error {
	err := w.run(ctx)
	if err != nil { // the caller may ignore the error, as a go statement does
		w.log.Error("worker does not run", "worker", w.cfg.Name, "error", err)
	}
	return err
}

func (w *Worker) run(ctx context.Context) (err error) {
	if w.ran.Swap(true) {
		return errors.New("worker: Run was called twice: create a new worker")
	}
	defer func() { w.vitals.end.Store(&ending{err}) }()
	if err := w.prepare(); err != nil {
		return err
	}
	defer w.setParams()()
	return w.serve(ctx, w.claimer.run)
}

// serve opens the sessions and executes loop until ctx ends. Then it stops the worker.
func (w *Worker) serve(ctx context.Context, loop func(context.Context) error) error {
	w.partition(func(int) bool { return true })
	w.vitals.leases.Store(&w.leases)
	if err := w.leases.Open(ctx); err != nil {
		w.leases.Close(context.WithoutCancel(ctx), w.log)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // stopped before it began
		}
		return fmt.Errorf("worker: open session: %w", err)
	}
	for p, l := range w.leases {
		if l.Current() != "" { // this partition has answered
			w.loop.unbounded.look(ctx, p)
		}
	}
	w.lookAtPins(ctx)
	purging, stopPurging := context.WithCancel(ctx)
	if w.declares {
		w.registerBuild(purging)
	}
	w.startGoroutines(purging)
	w.consult(purging, w.leases.Answer)

	defer w.loop.observers.start(w.gauges)()
	leave := func() {}
	if !w.cfg.NoLocalStart {
		leave = w.loop.client.AddHost(host{w})
	}
	failed := loop(ctx)
	leave()
	stopPurging()
	w.stop(w.cfg.Grace)
	return failed
}

// prepare ends the registration and determines what the worker serves.
func (w *Worker) prepare() error {
	w.apply(w.code.Kit())
	w.code.Seal()
	if w.fit == "" {
		w.fit = flow.Fingerprint(w.code, w.cfg.Build)
		w.build = flow.BuildOf(w.fit)
	}
	w.setRoutes()
	if len(w.served.routes()) == 0 {
		return errors.New("worker: nothing is registered: call the generated Register function before Run")
	}
	return nil
}

// fingerprint identifies the code and the keys of the worker. The keys may change while it runs.
func (e *env) fingerprint() string { return flow.WithKeys(e.fit, sealed.Keys(e.store)) }

// setParams sets the parameters that all run loops share. The caller must call leave when the worker
// claims no more runs.
func (w *Worker) setParams() (leave func()) {
	w.loop.client.SetBuild(w.build)
	w.loop.params = runloop.Params{
		Worker: w.cfg.Name, Build: w.build, Recoveries: w.cfg.Recoveries, QuarantineAfter: w.quarantineAfter(), RunBudget: w.cfg.RunBudget,
		MaxLogEvents: w.cfg.MaxLogEvents, MaxLogBytes: w.cfg.MaxLogBytes, Code: w.code, Around: w.steps.interceptors.around, Client: w.loop.client, Log: w.log, Serves: w.served.executes,
		Chance: w.chance, Unbounded: w.loop.unbounded.has, Observed: w.loop.observers != nil, Private: sealed.Private(w.store),
	}
	if len(w.cfg.Alerts.Rules) > 0 {
		w.loop.params.Alerts = w.alerting.Ended
	}
	return w.joinPins()
}

// partition creates the parts that exist for each partition. A partition that is not served has no
// session.
func (w *Worker) partition(served func(p int) bool) {
	told := &sync.Map{}
	publisher := &ratePublisher{env: w.env, outage: w.outage, session: func() store.SessionID { return w.leases[rates.Partition].Current() }}
	for p := range w.store.Partitions() {
		if !served(p) {
			w.outboxes, w.leases, w.unserved = append(w.outboxes, nil), append(w.leases, nil), append(w.unserved, nil)
			w.claimer.sources = append(w.claimer.sources, &source{})
			continue
		}
		relay := outbox.New(outbox.Params{
			Store: w.store, Clock: w.clock, Log: w.log, Activity: w.activity, Partition: p, Name: w.cfg.Name, Heartbeat: w.cfg.Heartbeat,
			Silent: w.claimer.silent, Paused: w.loop.client.SetAside, Rerun: w.loop.client.Rerun,
		})
		look := &unserved{env: w.env, outage: w.outage, partition: p, claim: w.claimer.claimByName, told: told}
		rescue := &rescuer{env: w.env, outage: w.outage, partition: p, full: w.runs.full, reserve: w.runs.reserveFor, claim: w.claimer.claimByName}
		var l *lease.Lease
		l = lease.New(lease.Params{
			Store: w.store, Clock: w.clock, Log: w.log, Partition: p, Worker: w.cfg.Name, Expiry: w.cfg.ClaimExpiry, Heartbeat: w.cfg.Heartbeat,
			Routes: w.served.routes, Fingerprint: w.fingerprint, Limits: permits.Defaults(p, w.store.Partitions()), Owner: w.runs, OnAnnounced: rescue.start, OnHeartbeat: func(ctx context.Context, answer store.Heartbeat) {
				relay.Heard(answer.Outbox)
				w.tellDamage()
				w.logRestored(p, answer.Restored)
				l.Pulse.Wait()
				w.loop.unbounded.look(ctx, p)
				l.Pulse.Work()
				look.look(ctx, answer.Unserved)
				if p == rates.Partition {
					publisher.publish(ctx)
				}
			},
		})
		w.outboxes, w.leases = append(w.outboxes, relay), append(w.leases, l)
		w.unserved = append(w.unserved, look)
		w.claimer.sources = append(w.claimer.sources, &source{Lease: l})
	}
	w.loop.leases = w.leases
}

// startParts starts the goroutines that every worker needs.
func (w *Worker) startParts() {
	for range max(runtime.GOMAXPROCS(0), 2) {
		w.executors.start()
	}
	w.committer.start()
	w.loader.start()
	w.watchdog.watch("the claim loop", w.claimer.pulse.Beat)
	w.watchdog.watch("the executors of runs", w.executors.ready.beat)
	for p, l := range w.leases {
		if l != nil {
			w.watchdog.watch("the heartbeats", l.Pulse.Beat)
			go l.Run()
			go w.outboxes[p].Run()
		}
	}
	w.vitals.watched.Store(true)
	go w.watchdog.run()
}

func (w *Worker) startGoroutines(purging context.Context) {
	w.startParts()
	for _, relay := range w.outboxes {
		relay.Notify() // delivers the records of earlier workers
	}
	purger := &purger{w.env, w.outage}
	w.work.Go(func() { purger.run(purging) })
	w.work.Go(func() { purger.sweep(purging) })
	reviver := &reviver{w.env, w.outage, w.claimer.claimByName}
	w.work.Go(func() { reviver.run(purging) })
	if w.declares && len(w.code.Scheduled()) > 0 {
		began := w.clock.Now()
		w.work.Go(func() { w.declare(purging, began) })
	}
	if w.declares {
		w.work.Go(func() { w.describe(purging) })
	}
	if len(w.cfg.Alerts.Rules) > 0 {
		w.work.Go(func() { w.alerting.Run(purging) })
	}
	switch {
	case w.build == "":
	case w.dispatches != nil:
		w.work.Go(func() { w.dispatches.adopt(w.newMover()).run(purging) })
	case w.declares:
		w.work.Go(func() { w.newMover().run(purging) })
	}
}

// host implements [localstart.Host], the interface of the worker for clients of its process.
type host struct{ *Worker }

// Take begins a run that a client starts. It declines a run that has to wait for its start time,
// for an earlier run, or for a slot that other runs wait for. It also declines a run that is
// created with messages: a run that the worker creates has no inbox, and the code must not begin
// without the messages.
func (h host) Take(s *localstart.Start) bool {
	w, c := h.Worker, &s.Create
	if len(c.Items) > 0 || c.Delay > 0 || !c.At.IsZero() || c.Active.Lines() || !w.served.claims(c.Route) || store.LocalOf(c.Uses) != nil {
		return false
	}
	p := w.partitionOf(c.Run)
	session := w.leases[p].Current()
	if !w.leases[p].Alive(session) || w.claimer.silent(p) {
		return false
	}
	claim := &runloop.Claim{
		ClaimedRun: store.ClaimedRun{Run: c.Run, WorkflowID: c.WorkflowID, Route: c.Route, Fence: store.Fence{Epoch: 1, Token: event.NewToken()}},
		Partition:  p, Session: session, Lease: w.leases[p], Create: &s.Event,
	}
	return w.runs.admit(claim, func() *inputs { return newRunLoop(w.env, w.loop, c.Run, s) })
}

// Follow waits for the end of a run that this worker owns.
func (h host) Follow(ctx context.Context, run event.RunID) (*localstart.End, bool) {
	return h.runs.follow(ctx, run)
}

// env is the environment that the parts of a worker share. It does not refer to any of them.
type env struct {
	lifecycle
	cfg      Config
	store    store.Store
	clock    store.Clock
	log      *slog.Logger
	damage   store.DamageTeller // nil if the store reports no damage
	base     context.Context    // parent of the contexts of steps
	activity *activity.Counter  // nil except in a test kit
	meter    *rates.Meter       // counts runs and steps for operators
	chance   func() float64     // returns a random number in [0, 1)

	// These bounds have other values only in tests and in the test kit.
	recheck    time.Duration // how long a run loop relies on an alarm before it checks the time again
	waitMost   time.Duration // longest sleep of the claim loop
	obeys      time.Duration // how long a stopping worker waits for canceled code
	stuckAfter time.Duration // how long a loop may make no progress before the worker is not live
	moves      time.Duration // interval at which the worker checks whether pinned runs must move

	fit    string // fingerprint of the code
	build  string // the build named in events; empty if it does not identify the program
	served served
	// movable is notified when a pinned run is found that no worker serves. creating is the number
	// of local starts whose creation is in flight.
	movable  wait.Notifier
	creating atomic.Int64
}

// lifecycle is the state of a worker's shutdown.
type lifecycle struct {
	stopping atomic.Bool     // the worker claims no runs and gives back its runs
	ending   atomic.Bool     // the grace period is over
	hard     atomic.Bool     // the worker does not wait for steps and does not retry requests
	killed   atomic.Bool     // set by [flow.Kit]
	io       context.Context // ends when the worker does not wait for the store any longer
	cutOff   context.CancelFunc
	work     sync.WaitGroup // counts goroutines that use the store
}

// hardStop bounds how long a stopping worker waits for work that should end at once.
const hardStop = 2 * time.Second

func (e *env) partitionOf(run event.RunID) int { return int(run.Slot()) % e.store.Partitions() }

// logRestored logs runs that the store had lost and a heartbeat has restored. The line names the
// first ten; the audit trail of every restored run records the restore.
func (e *env) logRestored(partition int, runs []event.RunID) {
	if len(runs) > 0 {
		e.log.Warn("runs that no worker would have found were made ready again: the store has lost keys", "worker", e.cfg.Name, "partition", partition,
			"count", len(runs), "runs", runs[:min(len(runs), 10)], "fix", "run flowctl doctor, and flowctl fsck to find other losses")
	}
}

// tellDamage logs damaged data that the store has found and skipped since the last call.
func (e *env) tellDamage() { outage.LogDamage(e.log, e.damage, slog.String("worker", e.cfg.Name)) }

// stop gives all runs back. Steps may end within the grace period grace, and their outcomes are
// committed. Then the contexts of the remaining steps are canceled. Outcomes within hardStop after
// that are committed as well: a result counts, and an error gives the attempt back. Steps that do
// not end are given back and abandoned, and a log line shows their stacks.
func (w *Worker) stop(grace time.Duration) {
	w.stopping.Store(true)
	switch {
	case w.killed.Load():
		w.hard.Store(true)
	case !w.leaveAll(grace):
		w.ending.Store(true)
		if w.leaveAll(w.obeys) {
			break
		}
		w.hard.Store(true)
		w.reportAttempts()
		w.leaveAll(hardStop)
	}
	w.awaitAttempts()
	w.endLeases()
	w.hard.Store(true) // no request is retried from here on
	w.cutOff()
	w.forgetAll()
	w.watchdog.stop()
	w.executors.ready.close()
	w.awaitExecutors()
	w.work.Wait()
}

// endLeases stops the heartbeats, delivers the last outbox records, and closes the sessions.
func (w *Worker) endLeases() {
	var all sync.WaitGroup
	for p, l := range w.leases {
		if l != nil {
			all.Go(w.outboxes[p].Stop)
		}
	}
	w.leases.Stop()
	for _, u := range w.unserved {
		if u != nil {
			u.looks.Wait()
		}
	}
	all.Wait()
	w.leases.Close(context.Background(), w.log)
}

// forgetAll unwinds the code of the runs that are in memory: runs that wait, and runs that could
// not be given back because the store does not answer.
func (w *Worker) forgetAll() {
	owned, parked := w.runs.all()
	for _, t := range parked {
		t.post(runloop.Input{Kind: runloop.Evict})
	}
	for _, t := range owned {
		t.post(runloop.Input{Kind: runloop.Lost})
		t.post(runloop.Input{Kind: runloop.Evict}) // needed if the run leaves before it handles the first input
	}
}

// leaveAll makes all runs leave and waits until all have left, for at most d. It reports whether
// all have.
func (w *Worker) leaveAll(d time.Duration) bool {
	idle := w.runs.stop()
	expired := make(chan struct{})
	stop := w.clock.AfterFunc(d, func() { close(expired) })
	defer stop()
	select {
	case <-idle:
		return true
	case <-expired:
		return false
	}
}

// reportAttempts logs the steps that ignore their canceled context, with their stacks.
func (w *Worker) reportAttempts() {
	for _, info := range w.steps.running() {
		w.log.Error("grace period is over: a step is still running", "run", info.Run, "step", info.Step, "key", info.Key,
			"attempt", info.Number, "stack", stackOf("flowgen_run", string(info.Run)))
	}
}

// hardStop returns a channel that is closed when the worker has waited long enough for work that
// should end at once. If the worker was killed, the channel is never closed: the caller of Kill
// waits for every goroutine and bounds the time itself.
func (w *Worker) hardStop() (expired chan struct{}, stop func() bool) {
	expired = make(chan struct{})
	if w.killed.Load() {
		return expired, func() bool { return true }
	}
	return expired, w.clock.AfterFunc(w.obeys, func() { close(expired) })
}

// awaitAttempts waits for the goroutines of canceled steps.
func (w *Worker) awaitAttempts() {
	expired, stop := w.hardStop()
	defer stop()
	select {
	case <-w.steps.ended():
	case <-expired:
	}
}

// awaitExecutors waits for the executors. It does not wait for executors that are stuck in user
// code.
func (w *Worker) awaitExecutors() {
	expired, stop := w.hardStop()
	defer stop()
	for _, e := range w.executors.list() {
		select {
		case <-e.done:
			continue
		case <-expired:
		}
		select {
		case <-e.done: // select chose one of two ready channels
		default:
			w.watchdog.reportStuck(e, "abandoned: a run's code does not return")
		}
	}
}

// apply changes the worker as a test kit requires.
func (w *Worker) apply(k *flow.Kit) {
	w.activity, w.fit, w.queues = k.Activity, k.Fingerprint, k.Queues
	w.waitMost, w.obeys, w.stuckAfter = cmp.Or(k.Sleeps, w.waitMost), cmp.Or(k.Obeys, w.obeys), cmp.Or(k.Stuck, w.stuckAfter)
	w.moves = cmp.Or(k.Moves, w.moves)
	if k.Chance != nil {
		w.chance = k.Chance
	}
	if k.Registry != nil {
		w.code, w.recheck = k.Registry, math.MaxInt64
		w.declares = false // A test that waits for all activity to end would otherwise have to advance the clock.
	}
}
