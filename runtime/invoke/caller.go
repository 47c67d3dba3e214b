package invoke

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

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
	patience time.Duration         // longest time of a call
	inFlight map[event.RunID]bool  // runs whose call was not answered; true: the answers for the run were false
	known    map[event.RunID]*past // runs for which the target was called
	doubtful bool                  // whether a call has failed since the last announcement
	since    time.Time             // when a call has failed first since the last announcement
	called   bool                  // whether the target was called since the last announcement
	lies
}

// past is the history of the calls for a run.
type past struct {
	failed int       // calls in a row that have failed
	lies   int       // calls in a row whose answers were false
	until  time.Time // the run is not offered before
	status string    // answer of the last call; empty: it has failed
	length uint64    // length of the log before that call; 0: unknown
}

func newCaller(d *Dispatcher, t *Target) *caller {
	return &caller{
		d: d, target: t, changed: make(chan struct{}, 1), doubt: make(chan struct{}, 1),
		inFlight: map[event.RunID]bool{}, known: map[event.RunID]*past{}, lies: lies{runs: map[event.RunID]bool{}},
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
			c.doubtful, c.called = false, false
			notify(c.changed)
			return a, true
		}
		c.fails()
		wait := backoff(failures, retryMost)
		if code := codeOf(err); code != told {
			told = code
			c.d.cfg.Logger.WarnContext(ctx, "a function cannot be called: its runs wait", "target", c.target.URL, "code", code, "error", err, "again", wait)
		}
		pause(ctx, wait)
	}
}

// fails records that the target does not answer.
func (c *caller) fails() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.doubtful {
		c.doubtful, c.since = true, time.Now()
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
	clear(c.known)
}

// wasCalled reports whether the target was called since its last announcement.
func (c *caller) wasCalled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.called
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
	switch {
	case c.doubtful, time.Now().Before(c.lies.until):
		return 0
	case c.lies.pauses > 0:
		return max(2-len(c.inFlight), 0)
	}
	return max(c.target.Concurrency-len(c.inFlight), 0)
}

// offer calls the target for a run, unless there is a reason not to.
func (c *caller) offer(ctx context.Context, run event.RunID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.known[run]
	lied := p != nil && p.lies > 0
	if _, calls := c.inFlight[run]; calls || ctx.Err() != nil || p != nil && time.Now().Before(p.until) || !c.tries(lied) {
		return false
	}
	c.inFlight[run], c.called = lied, true
	doubt, patience := len(c.lies.runs) > 0, c.patience
	check := doubt || p != nil && p.status != ""
	c.calls.Go(func() {
		// An answer is awaited even if the dispatcher stops, so that a run is not interrupted.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		defer cancel()
		if check && c.unchanged(ctx, run) {
			c.end(run)
			return
		}
		a, err := c.target.call(ctx, c.d.http, run)
		if err == nil && a.Status == StatusAnnounced {
			err = &Error{Code: CodeNotFunction, Message: "it answers a request for a run with its announcement"}
		}
		c.answered(ctx, run, a, err)
		if doubt && err == nil {
			c.unchanged(ctx, run)
		}
		c.end(run)
	})
	return true
}

// answered records the answer for a run.
func (c *caller) answered(ctx context.Context, run event.RunID, a Answer, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.past(run)
	if p.status = a.Status; err == nil {
		if p.failed = 0; a.Status == StatusDone {
			c.wait(p, retryFirst) // The list of ready runs may be older than the answer.
		}
		return
	}
	code, most := codeOf(err), retryMost
	if !aboutRun[code] {
		most = failedMost
		if !c.doubtful {
			c.doubtful, c.since = true, time.Now()
		}
		notify(c.doubt)
	}
	if time.Since(p.until) > most {
		p.failed = 0
	}
	p.failed++
	d := backoff(p.failed, most)
	if code == CodeBlocked {
		d = blockedWait
	}
	if c.wait(p, d); p.failed == 1 && !quiet[code] {
		c.warn(ctx, run, err)
	}
}

// end permits further calls for a run.
func (c *caller) end(run event.RunID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.inFlight, run)
	notify(c.changed)
}

// away reports whether the target has not answered for a while.
func (c *caller) away() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.doubtful && time.Since(c.since) >= awayAfter
}

// warn logs why the target has not executed a run.
func (c *caller) warn(ctx context.Context, run event.RunID, err error) {
	c.d.cfg.Logger.WarnContext(ctx, "a function has not executed a run", "run", run, "target", c.target.URL, "build", c.build, "code", codeOf(err), "error", err)
}

// past returns what is known about a run. The caller must hold the lock.
func (c *caller) past(run event.RunID) *past {
	p := c.known[run]
	if p == nil {
		c.forget()
		p = &past{}
		c.known[run] = p
	}
	return p
}

// wait lets a run wait for d before it is offered again. The caller must hold the lock.
func (c *caller) wait(p *past, d time.Duration) {
	p.until = time.Now().Add(d)
	time.AfterFunc(d, func() { notify(c.changed) })
}

// knownMost bounds how many runs a caller remembers.
const knownMost = 10_000

// forget makes room for another run. The caller must hold the lock.
func (c *caller) forget() {
	if len(c.known) < knownMost {
		return
	}
	for run, p := range c.known {
		if time.Now().After(p.until) {
			delete(c.known, run)
		}
	}
	if len(c.known) >= knownMost {
		clear(c.known)
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
