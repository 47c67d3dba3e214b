package worker

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

// A run that is damaged so that the store cannot even write that it is blocked stays owned
// by the session of the worker, which does nothing for it: it has no place and no slots
// here. It is given back after a while, and claimed again, in case that it was mended, and
// then more and more rarely. Who stops gives back all runs of the session.

// asideRun is such a run.
type asideRun struct {
	delay time.Duration
	until time.Time
}

const (
	asideFirst = 10 * time.Second
	asideMost  = 10 * time.Minute
)

// setAside keeps a run from being given back at once.
func (r *runs) setAside(run event.RunID, workflow string, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	a := r.aside[run]
	if a == nil {
		if r.aside == nil {
			r.aside = map[event.RunID]*asideRun{}
		}
		a = &asideRun{}
		r.aside[run] = a
	}
	a.delay = min(max(2*a.delay, asideFirst), asideMost)
	a.until = r.clock.Now().Add(a.delay)
	r.log.Error("run is set aside: not even that it is blocked can be written", "run", run, "workflow", workflow, "again", a.delay, "error", why)
}

// isAside reports whether a run must be left alone for now. It is called with the lock held.
func (r *runs) isAside(run event.RunID) bool {
	a := r.aside[run]
	return a != nil && r.clock.Now().Before(a.until)
}
