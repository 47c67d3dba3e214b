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
	"github.com/flowgen/flowgen/runtime/store"
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
	// announceAgain is the interval at which a dispatcher reads what a target serves while it calls
	// the target, or while runs wait that no function and no worker serves. An announcement may start
	// a process, so the interval is announceRarely if nothing happens. After a failure of a call the
	// dispatcher reads it at once.
	announceAgain, announceRarely = time.Minute, time.Hour
	// retryFirst and retryMost are the first and the longest pause after a failure of a target.
	retryFirst, retryMost = 250 * time.Millisecond, 30 * time.Second
	// failedMost is the longest time for which a run is not offered after a call has failed for an
	// unknown reason. If the function has died, the run is owned until its lease expires in any case.
	failedMost = 5 * time.Second
	// awayAfter is how long a target must not answer until its build has no host for pinned runs.
	awayAfter = 30 * time.Second
	// blockedWait is how long a run that the code of the target could not execute is not offered to the
	// same code. An announcement of other code, keys, routes or another budget ends it.
	blockedWait = 10 * time.Minute
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
		Away: c.away,
	})
}

// watch returns when the target announces other routes or another build than a. It reads the
// announcement at intervals, and after a call that has failed: the target gets no further calls until
// it has answered. So a target that is down is not called for each of its runs, and a function that
// dies because of one run does not delay the others.
func (d *Dispatcher) watch(ctx context.Context, c *caller, a announced) {
	for last := time.Now(); ; last = time.Now() {
		if !d.awaitReason(ctx, c, a, last) {
			return
		}
		now, ok := c.probe(ctx)
		if !ok || now.fingerprint != a.fingerprint || now.budget != a.budget || !slices.Equal(now.routes, a.routes) {
			return
		}
	}
}

// awaitReason waits until there is a reason to read the announcement of a target, which was read at
// last. It returns false if ctx has ended.
func (d *Dispatcher) awaitReason(ctx context.Context, c *caller, a announced, last time.Time) bool {
	for {
		timer := time.NewTimer(announceAgain)
		select {
		case <-timer.C:
			if c.wasCalled() || time.Since(last) >= announceRarely || d.unserved(ctx, a) {
				return true
			}
		case <-c.doubt:
			timer.Stop()
			return true
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// unserved reports whether runs wait that no live session serves, or that code of the target has
// blocked. Another version of the target may execute them.
func (d *Dispatcher) unserved(ctx context.Context, a announced) bool {
	teller, ok := store.As[store.FleetTeller](d.client.Store())
	if !ok {
		return true
	}
	fleet, err := teller.Fleet(ctx)
	if err != nil {
		return false // asked again soon
	}
	served := map[store.Route]bool{}
	for i := range fleet.Sessions {
		if s := &fleet.Sessions[i]; s.Live(fleet.Now) {
			for _, r := range s.Routes {
				served[r] = true
			}
		}
	}
	return slices.ContainsFunc(fleet.Routes, func(l store.RouteLoad) bool {
		return l.Ready > 0 && !served[l.Route] || l.Blocked > 0 && slices.Contains(a.routes, l.Route)
	})
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
