package endure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/endure/flows"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// journey is a run that was started, and what came of it.
type journey struct {
	job   flows.Job
	run   event.RunID
	done  bool
	wrong string        // how it ended other than it must
	still time.Duration // longest time without an event beyond what its work takes
	where string        // after which event
}

const (
	// keep is how long ended runs stay in the store: long enough to look at them.
	keep = 5 * time.Minute
	// longest is the longest work or nap of a journey.
	longest = 1500 * time.Millisecond
)

// drive starts runs for as long as harm is done, and returns when all that are not
// excused have ended, or when that takes too long.
func (e *experiment) drive(ctx, harm context.Context) {
	follow, stop := context.WithCancel(ctx)
	defer stop()
	var following sync.WaitGroup
	chance := e.chance(1)
	tick := time.NewTicker(time.Duration(float64(time.Second) / e.rate))
	defer tick.Stop()
	report := time.NewTicker(10 * time.Second)
	defer report.Stop()
	for id := 1; harm.Err() == nil; {
		select {
		case <-tick.C:
			job := flows.Job{ID: id, Steps: 2 + chance.IntN(5), Work: 100 + chance.IntN(1400), Nap: 100 + chance.IntN(1400)}
			id++
			following.Go(func() { e.travel(follow, job) })
		case <-report.C:
			fmt.Fprintln(e.stderr, e.progress())
		case <-harm.Done():
		}
	}
	over := time.Now().Add(e.wait)
	for ctx.Err() == nil && !e.allEnded() && time.Now().Before(over) {
		pause(ctx, 200*time.Millisecond)
	}
	stop()
	following.Wait()
	fmt.Fprintln(e.stderr, e.progress())
}

// allEnded reports whether every run that is not excused has ended.
func (e *experiment) allEnded() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for run, j := range e.journeys {
		if _, excused := e.excused[run]; !j.done && !excused {
			return false
		}
	}
	return len(e.journeys) == e.started
}

// travel starts a run, sends it its message, waits for its result and looks at its
// log.
func (e *experiment) travel(ctx context.Context, job flows.Job) {
	e.mu.Lock()
	e.started++
	e.mu.Unlock()
	var run *workflow.Run[int]
	e.insist(ctx, func(ctx context.Context) (err error) {
		run, err = flows.Journey.Start(ctx, e.client, job, workflow.WithID(fmt.Sprint("journey-", job.ID)), workflow.WithRetention(keep),
			workflow.WithIDPolicy(workflow.IDPolicy{Finished: workflow.RejectFinished}))
		if finished, ok := errors.AsType[*workflow.FinishedRunError](err); ok { // an answer was lost
			run, err = flows.Journey.Get(e.client, finished.Run), nil
		}
		return err
	})
	if run == nil {
		return // ctx has ended: it counts as lost
	}
	j := &journey{job: job, run: run.ID()}
	e.mu.Lock()
	e.journeys[j.run] = j
	e.mu.Unlock()
	e.insist(ctx, func(ctx context.Context) error {
		err := flows.Post.Send(ctx, run, job.Message(), workflow.IdempotencyKey("told"))
		if errors.Is(err, workflow.ErrRunTerminal) || errors.Is(err, workflow.ErrRunNotFound) {
			return nil // its result tells
		}
		return err
	})
	e.await(ctx, run, j)
}

// await waits for the end of a run.
func (e *experiment) await(ctx context.Context, run *workflow.Run[int], j *journey) {
	wrong := ""
	for ctx.Err() == nil {
		try, cancel := context.WithTimeout(ctx, 30*time.Second)
		got, err := run.Result(try)
		cancel()
		failed, isFailed := errors.AsType[*workflow.RunError](err)
		switch {
		case err == nil && got != j.job.Want():
			wrong = fmt.Sprintf("its result is %d, want %d", got, j.job.Want())
		case isFailed:
			wrong = failed.Error()
		case errors.Is(err, workflow.ErrRunNotFound):
			wrong = "it is gone"
		case err != nil:
			pause(ctx, 100*time.Millisecond)
			continue
		}
		still, where := e.standstill(ctx, run)
		e.mu.Lock()
		j.done, j.wrong, j.still, j.where = true, wrong, still, where
		e.mu.Unlock()
		return
	}
}

// standstill returns the longest time between two events of a run, beyond what its
// steps and naps take.
func (e *experiment) standstill(ctx context.Context, run *workflow.Run[int]) (still time.Duration, where string) {
	e.insist(ctx, func(ctx context.Context) error {
		var last event.Event
		for ev, err := range run.Events(ctx) {
			if err != nil {
				return nil // a log that cannot be read belongs to a key that was deleted, or its result tells
			}
			if gap := ev.Time.Sub(last.Time) - longest; last.Seq > 0 && gap > still {
				still, where = gap, fmt.Sprintf("event %d (%s), before %s", last.Seq, last.Type, ev.Type)
			}
			last = ev
		}
		return nil
	})
	return max(still, 0), where
}

// insist repeats what may fail while the server is down, until it succeeds or ctx
// ends.
func (e *experiment) insist(ctx context.Context, f func(context.Context) error) {
	for {
		try, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := f(try)
		cancel()
		if err == nil || !pause(ctx, 50*time.Millisecond) {
			return
		}
	}
}
