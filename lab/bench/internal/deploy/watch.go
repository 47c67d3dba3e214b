package deploy

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// watch measures for how long runs are blocked. The field longest must not be read before the loop
// has ended.
type watch struct {
	client  *workflow.Client
	since   map[workflow.RunID]time.Time // time since which each blocked run is blocked
	longest time.Duration
	settled chan chan struct{}
}

// lookEvery is the interval at which watch polls for blocked runs.
const lookEvery = 200 * time.Millisecond

func newWatch(c *workflow.Client) *watch {
	return &watch{client: c, since: map[workflow.RunID]time.Time{}, settled: make(chan chan struct{})}
}

func (w *watch) loop(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case done := <-w.settled:
			clear(w.since)
			close(done)
		case <-tick.C:
			w.look(ctx)
		}
	}
}

func (w *watch) look(ctx context.Context) {
	now, there := time.Now(), map[workflow.RunID]bool{}
	for run, err := range w.client.List(ctx, workflow.Filter{Statuses: []workflow.Status{workflow.StatusBlocked}, Internal: true}) {
		if err != nil {
			return
		}
		there[run.ID] = true
		if w.since[run.ID].IsZero() {
			w.since[run.ID] = now
		}
	}
	for id, since := range w.since {
		if !there[id] {
			w.longest = max(w.longest, now.Sub(since))
			delete(w.since, id)
		}
	}
}

// settle excludes the runs that are currently blocked from the measurement, because they wait for
// the other code.
func (w *watch) settle() {
	done := make(chan struct{})
	w.settled <- done
	<-done
}
