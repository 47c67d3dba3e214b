package worker

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/observe"
)

// observers calls the observers of the configuration. Its methods contain panics. A nil observers
// has no observer.
type observers struct {
	*env
	panicked []atomic.Bool // by observer: whether a panic was logged
}

func newObservers(e *env) *observers {
	return &observers{env: e, panicked: make([]atomic.Bool, len(e.cfg.Observers))}
}

// meet returns the observers of a run that the worker has in memory. It reuses the slice seen.
func (o *observers) meet(seen []observe.RunObserver, r *observe.Run) []observe.RunObserver {
	seen = append(seen[:0], make([]observe.RunObserver, len(o.cfg.Observers))...)
	for i, observer := range o.cfg.Observers {
		o.guard(i, func() { seen[i] = observer.Run(*r) })
	}
	return seen
}

// report passes a commit to the observers of its run.
func (o *observers) report(seen []observe.RunObserver, c *observe.Commit) {
	for i, observer := range seen {
		if observer != nil {
			o.guard(i, func() { observer.Committed(*c) })
		}
	}
}

// start calls the observers that observe workers. The result ends the observation.
func (o *observers) start(gauges func() observe.Gauges) (stop func()) {
	if o == nil {
		return func() {}
	}
	w := observe.Worker{Name: o.cfg.Name, Store: o.store, Gauges: gauges}
	stops := make([]func(), len(o.cfg.Observers))
	for i, observer := range o.cfg.Observers {
		if observer, ok := observer.(observe.WorkerObserver); ok {
			o.guard(i, func() { stops[i] = observer.Worker(w) })
		}
	}
	return func() {
		for i, stop := range stops {
			if stop != nil {
				o.guard(i, stop)
			}
		}
	}
}

// guard calls f. It logs the first panic of an observer.
func (o *observers) guard(i int, f func()) {
	defer func() {
		if r := recover(); r != nil && !o.panicked[i].Swap(true) {
			o.log.Error("an observer panicked: further panics of it are not logged", "observer", fmt.Sprintf("%T", o.cfg.Observers[i]), "panic", r, "stack", string(debug.Stack()))
		}
	}()
	f()
}

// gauges returns the present load of the worker.
func (w *Worker) gauges() observe.Gauges {
	g := observe.Gauges{Steps: w.steps.count()}
	w.runs.mu.Lock()
	g.Runs, g.Parked = len(w.runs.owned), w.runs.parked.order.Len()
	w.runs.mu.Unlock()
	for _, e := range w.executors.list() {
		if since := e.busy.Load(); since != 0 && time.Since(time.Unix(0, since)) >= w.cfg.BlockedAfter {
			g.Blocked++
		}
	}
	return g
}
