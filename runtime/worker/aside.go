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
func (w *Worker) setAside(t *task, why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.aside[t.id]
	if a == nil {
		if w.aside == nil {
			w.aside = map[event.RunID]*asideRun{}
		}
		a = &asideRun{}
		w.aside[t.id] = a
	}
	a.delay = min(max(2*a.delay, asideFirst), asideMost)
	a.until = w.clock.Now().Add(a.delay)
	w.log.Error("run is set aside: not even that it is blocked can be written", "run", t.id, "workflow", t.class.Workflow, "again", a.delay, "error", why)
}

// isAside reports whether a run is to be left alone for now.
func (w *Worker) isAside(run event.RunID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	a := w.aside[run]
	return a != nil && w.clock.Now().Before(a.until)
}

// tellDamage logs what the store has come across and left out.
func (w *Worker) tellDamage() {
	if w.damage == nil {
		return
	}
	for _, d := range w.damage.Damage() {
		w.log.Error("something in the store is damaged: it is set aside until it is repaired", "worker", w.cfg.Name, "run", d.Run, "error", d.Err)
	}
}
