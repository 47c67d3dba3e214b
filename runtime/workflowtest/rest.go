package workflowtest

import (
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// soon is a real time. Executions are compared only when no run is due within it. It is longer than
// the delay of a step's first retry.
const soon = 3 * time.Second

// rest waits, in real time, until every run has ended or is idle. Without it, a run that outlives
// the run under test, for example a detached child, might end in one execution and not in another.
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
			return nil // two consecutive checks found no activity and no new frame
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

// underWay describes one current activity in the store. If there is none, busy is empty and frames
// is the total number of frames of all logs.
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
	return true // the run has ended, is blocked, or waits for the end of another run
}

// takes records the routes of the workers. All workers have the same routes.
func (e *Env) takes(routes []store.Route) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.routes = routes
}

// served reports whether the workers serve a route.
func (e *Env) served(c store.Route) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Contains(e.routes, c)
}
