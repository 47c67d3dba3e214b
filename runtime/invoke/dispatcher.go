package invoke

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// DispatcherConfig configures a dispatcher. Only Targets is required.
type DispatcherConfig struct {
	// Targets are the functions to call. Several targets may serve the same workflows, for example two
	// builds during a deployment.
	Targets []Target
	// HTTP sends the requests. The default is a client with its own connections. Redirects are not
	// followed in any case.
	HTTP *http.Client
	// Logger is the logger of the dispatcher. The default is the client's logger.
	Logger *slog.Logger
	// Name identifies the dispatcher for operators. The default consists of the host name and the
	// process ID.
	Name string
}

// Dispatcher calls functions for ready runs. Create one with [NewDispatcher].
type Dispatcher struct {
	client *workflow.Client
	cfg    DispatcherConfig
	http   *http.Client
}

// NewDispatcher returns a dispatcher for the runs of the client's store. It returns a *[TargetError]
// if a target is not valid.
func NewDispatcher(c *workflow.Client, cfg DispatcherConfig) (*Dispatcher, error) {
	if c == nil {
		return nil, errors.New("invoke: the client is nil: create one with workflow.NewClient")
	}
	if len(cfg.Targets) == 0 {
		return nil, errors.New("invoke: the dispatcher has no targets")
	}
	cfg.Targets = slices.Clone(cfg.Targets)
	for i := range cfg.Targets {
		t := &cfg.Targets[i]
		if err := t.check(); err != nil {
			return nil, err
		}
		if t.Concurrency == 0 {
			t.Concurrency = 64
		}
	}
	if cfg.Logger == nil {
		cfg.Logger = (*flow.Client)(c).Engine().Logger()
	}
	if cfg.Name == "" {
		host, _ := os.Hostname()
		cfg.Name = fmt.Sprintf("%s/%d", host, os.Getpid())
	}
	d := &Dispatcher{client: c, cfg: cfg, http: newClient(cfg.HTTP)}
	return d, nil
}

// newClient returns a client that follows no redirects: the target of a redirect is not configured,
// and must not receive the IDs of runs.
func newClient(given *http.Client) *http.Client {
	c := http.Client{}
	if given != nil {
		c = *given
	} else {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxIdleConnsPerHost, t.MaxResponseHeaderBytes = 256, 64<<10
		c.Transport = t
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &c
}

// Run calls functions until ctx ends. Then it selects no further runs, waits for the answers of the
// requests that were sent, and returns nil. It returns an error if the store is closed, is not a
// flowgen store, or refuses the dispatcher.
func (d *Dispatcher) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failed := make([]error, len(d.cfg.Targets))
	var all sync.WaitGroup
	for i := range d.cfg.Targets {
		all.Go(func() {
			if failed[i] = d.serve(ctx, &d.cfg.Targets[i]); failed[i] != nil {
				cancel() // the store refuses the other targets as well
			}
		})
	}
	all.Wait()
	d.http.CloseIdleConnections()
	return errors.Join(failed...)
}

const (
	// announceAgain is the interval at which a dispatcher reads what a target serves.
	announceAgain = time.Minute
	// retryFirst and retryMost are the first and the longest pause after a failure of a target.
	retryFirst, retryMost = 250 * time.Millisecond, 30 * time.Second
)

// serve dispatches to a target until ctx ends.
func (d *Dispatcher) serve(ctx context.Context, t *Target) error {
	c := newCaller(d, t)
	defer c.calls.Wait()
	for ctx.Err() == nil {
		a, err := t.announce(ctx, d.http)
		if err != nil {
			c.failed(ctx, err)
			pause(ctx, c.pause())
			continue
		}
		c.recovered()
		if err := d.dispatch(ctx, c, a); err != nil {
			return err
		}
	}
	return nil
}

// dispatch offers ready runs to a target until ctx ends or the target announces something else.
func (d *Dispatcher) dispatch(ctx context.Context, c *caller, a announced) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c.announce(a)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer cancel()
	watching.Go(func() {
		defer cancel()
		d.watch(ctx, c, a)
	})
	w := worker.New(d.client, worker.Config{Name: d.cfg.Name, Logger: d.cfg.Logger, NoLocalStart: true})
	return (*flow.Registry)(w.Registry()).Kit().Invoker.Dispatch(ctx, flow.Dispatch{
		Routes: a.routes, Fingerprint: a.fingerprint, Free: c.free, Offer: func(run event.RunID) bool { return c.offer(ctx, run) }, Changed: c.changed,
	})
}

// watch returns when the target announces other routes or another build than a. A target that does
// not answer is announced as before: its runs wait for it.
func (d *Dispatcher) watch(ctx context.Context, c *caller, a announced) {
	for pause(ctx, announceAgain) {
		now, err := c.target.announce(ctx, d.http)
		if err != nil {
			c.failed(ctx, err)
			continue
		}
		c.recovered()
		if now.fingerprint != a.fingerprint || now.budget != a.budget || !slices.Equal(now.routes, a.routes) {
			return
		}
	}
}

// pause waits for d. It returns false if ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// caller calls one target. It bounds the number of calls, and pauses after failures.
type caller struct {
	d       *Dispatcher
	target  *Target
	changed chan struct{}
	calls   sync.WaitGroup

	mu       sync.Mutex
	build    string
	patience time.Duration            // longest time of a call
	inFlight map[event.RunID]bool     // runs whose call was not answered
	refused  map[event.RunID]*refusal // runs that the target has refused
	failures int                      // number of consecutive failures of the target
	until    time.Time                // the target is not called before this time
	told     string                   // code of the failure that was logged last
}

// refusal is how often and until when a run is not offered, because the target has refused it.
type refusal struct {
	times int
	until time.Time
}

func newCaller(d *Dispatcher, t *Target) *caller {
	return &caller{d: d, target: t, changed: make(chan struct{}, 1), inFlight: map[event.RunID]bool{}, refused: map[event.RunID]*refusal{}}
}

// announce begins to dispatch to the announced code, which may accept runs that the earlier code has
// refused.
func (c *caller) announce(a announced) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.build, c.patience = a.build, a.budget+30*time.Second
	clear(c.refused)
}

func (c *caller) notify() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// free returns how many further calls may be made.
func (c *caller) free() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if wait := time.Until(c.until); wait > 0 {
		return 0
	}
	most := c.target.Concurrency
	if c.failures > 0 {
		most = 1 // one call tests whether the target works again
	}
	return max(most-len(c.inFlight), 0)
}

// offer calls the target for a run, unless there is a reason not to.
func (c *caller) offer(ctx context.Context, run event.RunID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.inFlight[run] || ctx.Err() != nil {
		return false
	}
	if r := c.refused[run]; r != nil && time.Now().Before(r.until) {
		return false
	}
	c.inFlight[run] = true
	patience := c.patience
	c.calls.Go(func() {
		// An answer is awaited even if the dispatcher stops, so that a run is not interrupted.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		_, err := c.target.call(ctx, c.d.http, run)
		c.answered(ctx, run, err)
	})
	return true
}

// answered records the answer for a run.
func (c *caller) answered(ctx context.Context, run event.RunID, err error) {
	defer c.notify()
	e, _ := errors.AsType[*Error](err)
	if e == nil {
		c.recovered()
	} else if !aboutRun[e.Code] {
		c.failed(ctx, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inFlight, run)
	if e == nil || !aboutRun[e.Code] {
		delete(c.refused, run)
		return
	}
	r := c.refused[run]
	if r == nil {
		r = &refusal{}
		c.refused[run] = r
		if e.Code == CodeWrongBuild || e.Code == CodeUnserved || e.Code == CodeBlocked {
			c.d.cfg.Logger.WarnContext(ctx, "a function has refused a run", "run", run, "target", c.target.URL, "build", c.build, "code", e.Code, "error", e.Message, "fix", e.Fix)
		}
	}
	r.times++
	r.until = time.Now().Add(backoff(r.times))
	c.forget()
}

// refusedMost bounds how many refused runs a dispatcher remembers.
const refusedMost = 10_000

// forget removes refusals that are over. The caller must hold the lock.
func (c *caller) forget() {
	if len(c.refused) <= refusedMost {
		return
	}
	for run, r := range c.refused {
		if time.Now().After(r.until) {
			delete(c.refused, run)
		}
	}
	if len(c.refused) > refusedMost {
		clear(c.refused)
	}
}

// aboutRun contains the codes of answers that concern the run. All others concern the target.
var aboutRun = map[string]bool{
	CodeUnknownRun: true, CodeEnded: true, CodeOwned: true, CodeNotReady: true, CodeWrongBuild: true, CodeBlocked: true, CodeUnserved: true, CodeReplayed: true, CodeMalformed: true,
}

// backoff returns the pause after a number of failures.
func backoff(times int) time.Duration {
	return min(retryFirst<<min(times-1, 10), retryMost)
}

// failed records a failure of the target, and logs it if it differs from the last one.
func (c *caller) failed(ctx context.Context, err error) {
	if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures++
	wait := backoff(c.failures)
	c.until = time.Now().Add(wait)
	time.AfterFunc(wait, c.notify)
	code := CodeUnexpected
	if e, ok := errors.AsType[*Error](err); ok {
		code = e.Code
	}
	if code != c.told {
		c.told = code
		c.d.cfg.Logger.WarnContext(ctx, "a function cannot be called: its runs wait", "target", c.target.URL, "code", code, "error", err, "again", wait)
	}
}

// recovered records that the target has answered.
func (c *caller) recovered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.told != "" {
		c.d.cfg.Logger.Info("a function can be called again", "target", c.target.URL)
	}
	c.failures, c.until, c.told = 0, time.Time{}, ""
}

// pause returns how long to wait after the last failure.
func (c *caller) pause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(time.Until(c.until), time.Millisecond)
}
