package chaos

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

const (
	// lookEvery is the interval at which the experiment polls for ended runs.
	lookEvery = 500 * time.Millisecond
	// lookBatch is the maximum number of runs per call.
	lookBatch = 500
)

// watch polls for ended runs and prints a line each second. It returns when all orders are executed
// and all runs have ended, or when ctx ends.
func (x *experiment) watch(ctx context.Context, driven <-chan struct{}) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for n := 0; !x.finished(driven); n++ {
		if n%int(time.Second/lookEvery) == 0 {
			fmt.Fprintln(x.Output, x.Progress())
		}
		select {
		case <-tick.C:
			x.look(ctx)
		case <-ctx.Done():
			return
		}
	}
	fmt.Fprintln(x.Output, x.Progress())
}

// finished reports whether every order was executed and every run has ended.
func (x *experiment) finished(driven <-chan struct{}) bool {
	select {
	case <-driven:
	default:
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.started) == 0
}

// look queries the store for the end of each run in x.started. If the query fails, the next call
// repeats it.
func (x *experiment) look(ctx context.Context) {
	x.mu.Lock()
	loads := make([]store.Load, 0, len(x.started))
	for run := range x.started {
		loads = append(loads, store.Load{Run: run, Limit: -1})
	}
	x.mu.Unlock()
	for batch := range slices.Chunk(loads, lookBatch) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		loaded, err := x.Store.Load(ctx, batch)
		cancel()
		if err != nil {
			return
		}
		for i := range loaded {
			x.saw(batch[i].Run, &loaded[i])
		}
	}
}

func (x *experiment) saw(run event.RunID, l *store.Loaded) {
	if l.Err != nil {
		return // The remaining runs are reported as lost at the end of the experiment.
	}
	if l.Record.QueueState == store.StateEnded {
		x.sawEnd(run)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if n := l.Record.Recoveries; n > x.recovered[run] {
		x.recoveries += n - x.recovered[run]
	}
	x.recovered[run] = l.Record.Recoveries
}

// recheck discards the ends that were observed recently, because a failover may have undone them.
func (x *experiment) recheck() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for run, at := range x.ended {
		if time.Since(at) < lately {
			delete(x.ended, run)
			x.started[run] = true
		}
	}
}

// lately is the age up to which an end counts as recent. It is much longer than the replication
// delay.
const lately = 30 * time.Second

// sawEnd records when the end of a run was first observed.
func (x *experiment) sawEnd(run event.RunID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.started, run)
	if _, known := x.ended[run]; !known {
		x.ended[run] = time.Now()
	}
}

// Progress returns a description of the state of the experiment.
func (x *experiment) Progress() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return fmt.Sprintf("%3.0fs  %d of %d runs have ended, %d under way; %s; %d recoveries or more",
		x.Seconds(), len(x.ended), x.runs, len(x.started), x.harms(), x.recoveries)
}

// harms returns a description of the faults of workers and servers.
func (x *experiment) harms() string {
	return fmt.Sprintf("%d workers killed, %d stalled, %d stopped, %d servers restarted, %d failovers",
		x.Count(harm.Kills), x.Count(harm.Stalls), x.Count(harm.Stops), x.Count(harm.Restarts), x.Count(failovers))
}
