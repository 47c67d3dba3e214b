package workflowtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// soon is the maximum real time until a due time for which executions are awaited before they are
// compared: it covers the first retry of a step.
const soon = 3 * time.Second

// rest waits, in real time, until every run has ended or is idle. Otherwise a run that outlives the
// run under test, such as a detached child, could have ended in one execution and not in another.
func (e *Env) rest() error {
	until := time.Now().Add(hang)
	for last := uint64(0); ; {
		frames, busy, err := e.underWay()
		switch {
		case e.ctx.Err() != nil:
			return nil //nolint:nilerr // the Env is closed
		case err != nil:
			return fmt.Errorf("look whether the runs rest: %w", err)
		case busy == "" && frames == last:
			return nil // nothing has happened during one whole pass
		case busy == "":
			last = frames
			continue
		case time.Now().After(until):
			return fmt.Errorf("%w for %v of real time after the end of the run: %s", errHang, hang, busy)
		}
		last = 0
		select {
		case <-time.After(2 * time.Millisecond):
		case <-e.ctx.Done():
		}
	}
}

// underWay describes some activity; if there is none, it returns the total number of frames of all
// logs.
func (e *Env) underWay() (frames uint64, busy string, err error) {
	for p := range e.store.Partitions() {
		records, _, err := e.store.Outbox(e.ctx, p, 1)
		if err != nil {
			return 0, "", err
		}
		if len(records) > 0 && records[0].Phase == store.PhaseFresh {
			return 0, fmt.Sprintf("run %s has sent something to run %s", records[0].From, records[0].To), nil
		}
	}
	e.mu.Lock()
	runs := slices.Clone(e.runs)
	e.mu.Unlock()
	loads := make([]store.Load, len(runs))
	for i, run := range runs {
		loads[i] = store.Load{Run: run, Inbox: true, Limit: -1}
	}
	loaded, err := e.store.Load(e.ctx, loads)
	if err != nil {
		return 0, "", err
	}
	for i := range loaded {
		if loaded[i].Err != nil {
			return 0, "", loaded[i].Err
		}
		if !e.rests(&loaded[i]) {
			r := &loaded[i].Record
			return 0, fmt.Sprintf("run %s of %s is %s (%s)", r.Run, r.Route.Workflow, r.QueueState, r.Status), nil
		}
		frames += loaded[i].Record.N
	}
	return frames, "", nil
}

// rests reports whether a run is idle.
func (e *Env) rests(l *store.Loaded) bool {
	switch r := &l.Record; r.QueueState {
	case store.StateReady:
		return !e.served(r.Route)
	case store.StateOwned:
		return false
	case store.StateParked:
		return len(l.Inbox) == 0 && (r.Due.IsZero() || r.Due.After(e.Now().Add(soon)))
	}
	return true // it has ended, is blocked, or waits for the end of another run
}

// takes records the routes of the workers; they are the same for all workers.
func (e *Env) takes(routes []store.Route) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.routes = routes
}

// served reports whether workers take runs of a route.
func (e *Env) served(c store.Route) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.routes, c)
}
