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
	// failedMost is the longest time for which a run is not offered after a call has failed for an
	// unknown reason. If the function has died, the run is owned until its lease expires in any case.
	failedMost = 5 * time.Second
	// blockedWait is how long a run that the code of the target could not replay is not offered to the
	// same code.
	blockedWait = time.Hour
)

// serve dispatches to a target until ctx ends.
func (d *Dispatcher) serve(ctx context.Context, t *Target) error {
	c := newCaller(d, t)
	defer c.calls.Wait()
	for {
		a, ok := c.probe(ctx)
		if !ok {
			return nil // ctx has ended
		}
		if err := d.dispatch(ctx, c, a); err != nil {
			return err
		}
	}
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
		Routes: a.routes, Fingerprint: a.fingerprint, Most: c.target.Concurrency, Free: c.free, Offer: func(run event.RunID) bool { return c.offer(ctx, run) }, Changed: c.changed,
	})
}

// watch returns when the target announces other routes or another build than a. It reads the
// announcement at intervals, and after a call that has failed: the target gets no further calls until
// it has answered. So a target that is down is not called for each of its runs, and a function that
// dies because of one run does not delay the others.
func (d *Dispatcher) watch(ctx context.Context, c *caller, a announced) {
	for {
		select {
		case <-time.After(announceAgain):
		case <-c.doubt:
		case <-ctx.Done():
			return
		}
		now, ok := c.probe(ctx)
		if !ok || now.fingerprint != a.fingerprint || now.budget != a.budget || !slices.Equal(now.routes, a.routes) {
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

// caller calls one target. It bounds the number of calls, and makes none while it is in doubt whether
// the target works.
type caller struct {
	d       *Dispatcher
	target  *Target
	changed chan struct{}
	doubt   chan struct{} // receives a value when a call has failed
	calls   sync.WaitGroup

	mu       sync.Mutex
	build    string
	patience time.Duration            // longest time of a call
	inFlight map[event.RunID]bool     // runs whose call was not answered
	refused  map[event.RunID]*refusal // runs that are not offered for a while
	doubtful bool                     // whether a call has failed since the last announcement
}

// refusal is how often a call for a run has failed, and until when the run is not offered.
type refusal struct {
	times int
	until time.Time
}

func newCaller(d *Dispatcher, t *Target) *caller {
	return &caller{
		d: d, target: t, changed: make(chan struct{}, 1), doubt: make(chan struct{}, 1),
		inFlight: map[event.RunID]bool{}, refused: map[event.RunID]*refusal{},
	}
}

// probe reads the announcement of the target. It retries until it succeeds, at growing intervals. It
// returns false if ctx has ended.
func (c *caller) probe(ctx context.Context) (announced, bool) {
	told := ""
	for failures := 1; ; failures++ {
		a, err := c.target.announce(ctx, c.d.http)
		if ctx.Err() != nil {
			return announced{}, false
		}
		if err == nil {
			if told != "" {
				c.d.cfg.Logger.InfoContext(ctx, "a function can be called again", "target", c.target.URL)
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.doubtful = false
			notify(c.changed)
			return a, true
		}
		wait := backoff(failures, retryMost)
		if code := codeOf(err); code != told {
			told = code
			c.d.cfg.Logger.WarnContext(ctx, "a function cannot be called: its runs wait", "target", c.target.URL, "code", code, "error", err, "again", wait)
		}
		pause(ctx, wait)
	}
}

func codeOf(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeUnexpected
}

// announce begins to dispatch to the announced code, which may accept runs that the earlier code has
// refused.
func (c *caller) announce(a announced) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.build, c.patience = a.build, a.budget+30*time.Second
	clear(c.refused)
}

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// free returns how many further calls may be made.
func (c *caller) free() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.doubtful {
		return 0
	}
	return max(c.target.Concurrency-len(c.inFlight), 0)
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
		a, err := c.target.call(ctx, c.d.http, run)
		if err == nil && a.Status == StatusAnnounced {
			err = &Error{Code: CodeNotFunction, Message: "it answers a request for a run with its announcement"}
		}
		c.answered(ctx, run, a, err)
	})
	return true
}

// answered records the answer for a run.
func (c *caller) answered(ctx context.Context, run event.RunID, a Answer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer notify(c.changed)
	delete(c.inFlight, run)
	switch {
	case err == nil && a.Status == StatusDone:
		c.refuse(run, failedMost) // A run that has ended is not offered again. If it is, the answer was wrong.
		return
	case err == nil:
		delete(c.refused, run)
		return
	}
	code, most := codeOf(err), retryMost
	if !aboutRun[code] {
		most = failedMost
		c.doubtful = true
		notify(c.doubt)
	}
	first, wait := c.refuse(run, most)
	if first && !quiet[code] {
		c.d.cfg.Logger.WarnContext(ctx, "a function has not executed a run", "run", run, "target", c.target.URL, "build", c.build, "code", code, "error", err)
	}
	time.AfterFunc(wait, func() { notify(c.changed) })
}

// refuse lets a run wait before it is offered again, longer each time and at most for most. It reports
// whether the run was not refused before. The caller must hold the lock.
func (c *caller) refuse(run event.RunID, most time.Duration) (first bool, wait time.Duration) {
	r := c.refused[run]
	if first = r == nil || time.Since(r.until) > most; first {
		r = &refusal{}
		c.refused[run] = r
	}
	r.times++
	wait = backoff(r.times, most)
	r.until = time.Now().Add(wait)
	c.forget()
	return first, wait
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

// aboutRun contains the codes of answers that concern the run. After other errors it is in doubt
// whether the target works.
var aboutRun = map[string]bool{
	CodeUnknownRun: true, CodeEnded: true, CodeOwned: true, CodeNotReady: true, CodeWrongBuild: true, CodeBlocked: true, CodeUnserved: true, CodeReplayed: true, CodeMalformed: true,
}

// quiet contains the codes of answers that are expected if there are several dispatchers or workers.
var quiet = map[string]bool{CodeUnknownRun: true, CodeEnded: true, CodeOwned: true, CodeNotReady: true, CodeBusy: true}

// backoff returns the pause after a number of failures.
func backoff(times int, most time.Duration) time.Duration {
	return min(retryFirst<<min(times-1, 10), most)
}
