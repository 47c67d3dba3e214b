package invoke

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// A target may answer that a run has progressed, is parked or has ended, although it has not executed
// the run: another program answers at its address, or its store is not the store of the dispatcher.
// Such a run is ready again at once. So a dispatcher reads the length of the log before it calls a
// target for a run again. If the log has not grown since the call before, the answer was false, and
// the run waits longer each time. The first two calls for a run need no read, and so do runs that need
// one invocation.
//
// If the answers for several runs were false, and no log has grown in between, the target gets no call
// for a while, longer each time. Then it gets two calls: for one of these runs, and for another run.
// This continues until a log has grown, which is checked after each call. The answers for one run do
// not suffice, because it may be the run that is the problem.

// liesMost is the number of runs with false answers from which on a target gets fewer calls.
const liesMost = 4

// lies records the false answers of a target.
type lies struct {
	runs   map[event.RunID]bool // runs with false answers since a log has grown
	pauses int                  // pauses since a log has grown
	until  time.Time            // the target gets no calls before
}

// unchanged reports whether the caller must not call the target for the run, because the last answer
// was false, or because the run is not ready any longer.
func (c *caller) unchanged(ctx context.Context, run event.RunID) bool {
	got, err := c.d.client.Store().Load(ctx, []store.Load{{Run: run, Limit: -1}})
	if err == nil {
		err = got[0].Err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.past(run)
	before := p.length
	if p.length = 0; err != nil {
		return false // the function reports the error
	}
	r := &got[0].Record
	ready := r.QueueState == store.StateReady || r.QueueState == store.StateBlocked
	switch {
	case ready && (p.status == StatusDone || p.status != "" && r.N == before):
		p.status = ""
		c.lied(ctx, run, p)
	case ready && (p.status == "" || before == 0):
		p.length = r.N
		return false
	case r.N != before:
		c.lies = lies{runs: map[event.RunID]bool{}}
		if p.lies, p.length = 0, r.N; ready {
			return false
		}
	}
	return true
}

// tries reports whether the target may be called for another run. lied reports whether the answers for
// the run were false. The caller must hold the lock.
func (c *caller) tries(lied bool) bool {
	if c.lies.pauses == 0 {
		return true
	}
	for _, other := range c.inFlight {
		if other == lied {
			return false
		}
	}
	return true
}

// lied records that the last answer for a run was false. The caller must hold the lock.
func (c *caller) lied(ctx context.Context, run event.RunID, p *past) {
	p.lies++
	c.wait(p, backoff(p.lies, retryMost))
	if p.lies == 1 {
		c.warn(ctx, run, &Error{
			Code: CodeNoProgress, Message: "it answers that the run has progressed, but the log of the run has not grown",
			Fix: "check that the URL is that of an invoke.Handler with the store of the dispatcher",
		})
	}
	now := time.Now()
	if c.lies.runs[run] = true; len(c.lies.runs) < liesMost || now.Before(c.lies.until) {
		return
	}
	c.lies.pauses++
	pause := backoff(c.lies.pauses, retryMost)
	c.lies.until = now.Add(pause)
	time.AfterFunc(pause, func() { notify(c.changed) })
}
