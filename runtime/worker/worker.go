package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/activity"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/outage"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/request"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Config configures a worker. The zero value is the default.
type Config struct {
	// Queues are the queues to serve; empty: the queue of each registered
	// workflow and step, and "default". A queue that only workflow.Queue names must
	// be one of them.
	Queues []string
	// Concurrency bounds how many steps run at once; 0: 256.
	Concurrency int
	// Grace is how long running steps may go on when the worker stops; 0: 10 s.
	Grace time.Duration
	// Heartbeat is how often the worker renews its claims; 0: 5 s.
	Heartbeat time.Duration
	// ClaimExpiry is how long after its last heartbeat a worker is taken for
	// dead; 0: 30 s. It must be at least twice Heartbeat.
	ClaimExpiry time.Duration
	// RunBudget is how long a run may keep its place on the worker while others
	// wait for one; 0: 50 s.
	RunBudget time.Duration
	// Recoveries is how often a run may take its worker with it before it is set
	// aside as failed, with the code "poisoned"; 0: 5. With 1 the first death of a worker
	// poisons whatever it had: at least 2 are needed to tell the guilty from the innocent.
	Recoveries int
	// Parked bounds how many branches of waiting runs are kept in memory, about
	// 13 KB each; 0: 5,000. Beyond it runs are replayed when they wake.
	Parked int
	// Runs bounds how many runs the worker works on at once, not those that wait;
	// 0: Concurrency, but at least 16. More of them wait for one another's steps.
	Runs int
	// MaxLogEvents and MaxLogBytes bound the log of a run; 0: 50,000 events, 50 MB. One that
	// gets longer ends as failed, with the code "loglimit": its context ends as after a cancel,
	// and a fifth as much again is left for what cleans up and undoes. A run that goes on
	// for long continues as new before that; see workflow.ContinueAsNew and LogLength.
	MaxLogEvents int
	MaxLogBytes  int
	// NoHandover lets runs that are started on the worker's own client wait for a
	// claim by any worker. Else this worker begins them at once while it has room,
	// which saves a claim, a commit and two round trips.
	NoHandover bool
	// BlockedAfter is how long code of a workflow may run between two durable
	// operations before the worker reports it; 0: 5 s.
	BlockedAfter time.Duration
	// Logger is used by the worker; nil: that of the client.
	Logger *slog.Logger
	// BaseContext returns the context that those of the steps are made from;
	// nil: context.Background(). It is called once.
	BaseContext func() context.Context
	// Name tells people which worker this is; empty: host name and process id.
	Name string
}

func (c Config) withDefaults(client *slog.Logger) Config {
	pick := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	count := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	pick(&c.Grace, 10*time.Second)
	pick(&c.Heartbeat, 5*time.Second)
	pick(&c.ClaimExpiry, 30*time.Second)
	pick(&c.RunBudget, 50*time.Second)
	pick(&c.BlockedAfter, 5*time.Second)
	count(&c.Concurrency, 256)
	count(&c.Recoveries, 5)
	count(&c.Parked, 5_000)
	count(&c.MaxLogEvents, 50_000)
	count(&c.MaxLogBytes, 50_000_000)
	count(&c.Runs, max(c.Concurrency, 16))
	if c.Logger == nil {
		c.Logger = client
	}
	if c.Name == "" {
		host, _ := os.Hostname()
		c.Name = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	return c
}

// ErrStopping is the cause of a step's context that ends because the worker does.
var ErrStopping = errors.New("worker is stopping")

// errEnded is the cause of a step's context whose run has ended without it.
var errEnded = errors.New("the run has ended")

// errLost is the cause of a step's context whose run was taken over.
var errLost = workflow.ErrClaimLost

// Worker executes runs. Make one with [New], register workflows and steps, and
// call [Worker.Run].
type Worker struct {
	client   engine.Client
	store    store.Store
	clock    store.Clock
	cfg      Config
	log      *slog.Logger
	registry *workflow.Registry
	code     engine.Registry // that of registry, but in a test kit
	fit      string          // fingerprint of the code
	build    string          // as much of it as events say; empty: it does not tell programs apart
	classes  []store.Class
	serves   map[store.Class]bool
	base     context.Context
	outage   *outage.Log
	damage   store.DamageTeller // nil: the store tells of none
	activity *activity.Counter  // nil but in a test kit
	chance   func() float64     // in [0, 1)
	queues   []string           // served beside those of the configuration
	// Bounds that only tests and their kit change.
	lookAgain time.Duration // how long a task trusts an alarm
	waitMost  time.Duration
	obeys     time.Duration // how long what was told to end is waited for

	mu        sync.Mutex
	tasks     map[event.RunID]*task // owned
	parked    *parkedRuns
	sessions  []*session
	turns     turns   // of suspects
	slotLine  []*task // want to start steps
	releasing int     // runs that are being given back outside of a commit
	aside     map[event.RunID]*asideRun

	slots    atomic.Int64 // free
	claimSeq atomic.Uint64
	queue    queue

	commitSender *request.Sender[*commit]
	loadSender   *request.Sender[*load]
	commits      chan *commit
	births       chan *commit
	loads        chan *load
	executors    []*executor
	turn         atomic.Int64 // the partition to claim from first
	passed       atomic.Bool  // a partition was passed over in this round
	stopping     atomic.Bool
	ending       atomic.Bool // the grace period is over
	hard         atomic.Bool // nothing waits for steps any more
	killed       atomic.Bool // see engine.Kill
	attempts     attemptSet
	kick         chan struct{}   // capacity was freed, or a due time learnt
	revived      chan struct{}   // a partition that was silent answers
	idle         chan struct{}   // closed when stopping and no task is left
	io           context.Context // ends when the worker waits for the store no more
	cutOff       context.CancelFunc
	dog          *watchdog
	told         sync.Map // classes of which it has said that nobody serves them

	ran  atomic.Bool
	work sync.WaitGroup // committers, loaders, the purger
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
	w := &Worker{
		client: client, store: outage.Watch(s, failures), outage: failures, clock: s.Clock(), cfg: cfg, log: cfg.Logger, registry: registry, code: engine.RegistryOf(registry),
		tasks: map[event.RunID]*task{}, parked: newParkedRuns(cfg.Parked),
		commits: make(chan *commit, 1024), births: make(chan *commit, 1024), loads: make(chan *load, 1024),
		kick: make(chan struct{}, 1), revived: make(chan struct{}, 1), idle: make(chan struct{}),
		base: context.Background(), chance: rand.Float64,
		lookAgain: lookAgain, waitMost: waitMost, obeys: hardStop,
	}
	if cfg.BaseContext != nil {
		w.base = cfg.BaseContext()
	}
	w.damage, _ = store.As[store.DamageTeller](s)
	w.io, w.cutOff = context.WithCancel(context.Background())
	w.slots.Store(int64(cfg.Concurrency))
	w.queue.init()
	w.attempts.init()
	w.commitSender, w.loadSender = w.newCommitSender(), w.newLoadSender()
	return w
}

// Registry returns where generated Register functions put workflows and steps.
func (w *Worker) Registry() *workflow.Registry { return w.registry }

// Run works until ctx ends. Then it claims no more runs, lets running steps go
// on for the grace period, gives its runs back and returns nil. A store that
// cannot be reached is waited for, also at the start: the log says so once, then
// more and more rarely, and when it is over. Run returns an error if nothing is
// registered, if the store refuses the worker at the start (see
// [store.ErrRefused]), is another kind of thing or of another release, or if it
// is closed. A worker runs once.
func (w *Worker) Run(ctx context.Context) error {
	err := w.run(ctx)
	if err != nil { // it is easily dropped, as by a go statement
		w.log.Error("worker does not run", "worker", w.cfg.Name, "error", err)
	}
	return err
}

func (w *Worker) run(ctx context.Context) error {
	if w.ran.Swap(true) {
		return errors.New("worker: Run was called twice: make a new worker")
	}
	w.code.Seal()
	w.classes = w.servedClasses()
	w.serves = make(map[store.Class]bool, len(w.classes))
	for _, c := range w.classes {
		w.serves[c] = true
	}
	if len(w.classes) == 0 {
		return errors.New("worker: nothing is registered: call the generated Register function before Run")
	}
	if w.fit == "" {
		w.fit = fingerprint(w.code)
		w.build = w.fit[:12]
	}
	if err := w.openSessions(ctx); err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closePatience)
		defer cancel()
		w.closeSessions(closing)
		if ctx.Err() != nil {
			return nil // stopped before it began
		}
		return fmt.Errorf("worker: open session: %w", err)
	}
	purging, stopPurging := context.WithCancel(ctx)
	w.startGoroutines(purging)
	w.consult(purging)

	leave := func() {}
	if !w.cfg.NoHandover {
		leave = w.client.AddHost(host{w})
	}
	failed := w.claimLoop(ctx)
	leave()
	stopPurging()
	w.stop()
	return failed
}

func (w *Worker) startGoroutines(purging context.Context) {
	for range max(runtime.GOMAXPROCS(0), 2) {
		w.startExecutor()
	}
	for range committers {
		w.work.Add(1)
		go w.commitLoop()
	}
	for range bearers {
		w.work.Add(1)
		go w.birthLoop()
	}
	for range loaders {
		w.work.Add(1)
		go w.loadLoop()
	}
	for _, s := range w.sessions {
		go s.loop()
		go s.relay.Run()
		s.relay.Notify() // what a worker before has left
	}
	w.work.Add(1)
	go w.purgeLoop(purging)
	w.watch()
}

func (w *Worker) servedClasses() []store.Class {
	var all []store.Class
	seen := map[store.Class]bool{}
	add := func(c store.Class) {
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
			add(store.Class{Queue: q, Workflow: c.Workflow})
		}
	}
	for _, c := range slices.Clone(all) { // what holds a token has the queue of the run that asks for it
		add(store.Class{Queue: c.Queue, Workflow: event.HookRun})
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

// poke wakes the claim loop.
func (w *Worker) poke() {
	select {
	case w.kick <- struct{}{}:
	default:
	}
}
