package endure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/flowgen/flowgen/lab/bench/internal/endure/flows"
	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// journey is the run of one job with its outcome.
type journey struct {
	job   flows.Job
	run   event.RunID
	done  bool
	wrong string        // difference from the required end; empty if there is none
	still time.Duration // longest time without an event, minus the duration of steps and sleeps in that time
	where string        // event before that time
}

const (
	// keep is the retention of ended runs. It is long enough to inspect their logs.
	keep = 5 * time.Minute
	// longest is the maximum duration of a step or sleep of a journey.
	longest = 1500 * time.Millisecond
)

// drive starts runs until harmed ends. It returns when all runs have ended, except for excused
// runs, or after a timeout.
func (e *experiment) drive(ctx, harmed context.Context) {
	follow, stop := context.WithCancel(ctx)
	defer stop()
	var following sync.WaitGroup
	chance := e.Chance(1)
	tick := time.NewTicker(time.Duration(float64(time.Second) / e.rate))
	defer tick.Stop()
	report := time.NewTicker(10 * time.Second)
	defer report.Stop()
	for id := 1; harmed.Err() == nil; {
		select {
		case <-tick.C:
			job := flows.Job{ID: id, Steps: 2 + chance.IntN(5), Work: 100 + chance.IntN(1400), Nap: 100 + chance.IntN(1400)}
			id++
			following.Go(func() { e.travel(follow, job) })
		case <-report.C:
			fmt.Fprintln(e.Output, e.Progress())
		case <-harmed.Done():
		}
	}
	over := time.Now().Add(e.Wait)
	for ctx.Err() == nil && !e.allEnded() && time.Now().Before(over) {
		harm.Pause(ctx, 200*time.Millisecond)
	}
	stop()
	following.Wait()
	fmt.Fprintln(e.Output, e.Progress())
}

// allEnded reports whether every run has ended. It ignores excused runs.
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

// travel starts the run of a job, sends its message, waits for its result and inspects its log.
func (e *experiment) travel(ctx context.Context, job flows.Job) {
	e.mu.Lock()
	e.started++
	e.mu.Unlock()
	var run *workflow.Run[int]
	harm.Insist(ctx, func(ctx context.Context) (err error) {
		run, err = flows.Journey.Start(ctx, e.Client, job, workflow.WithID(fmt.Sprint("journey-", job.ID)), workflow.WithRetention(keep),
			workflow.WithIDPolicy(workflow.IDPolicy{Finished: workflow.RejectFinished}))
		if finished, ok := errors.AsType[*workflow.FinishedRunError](err); ok { // The response to an earlier attempt was lost.
			run, err = flows.Journey.Get(e.Client, finished.Run), nil
		}
		return err
	})
	if run == nil {
		return // The context has ended, so the run counts as lost.
	}
	j := &journey{job: job, run: run.ID()}
	e.mu.Lock()
	e.journeys[j.run] = j
	e.mu.Unlock()
	harm.Insist(ctx, func(ctx context.Context) error {
		err := flows.Post.Send(ctx, run, job.Message(), workflow.IdempotencyKey("told"))
		if errors.Is(err, workflow.ErrRunTerminal) || errors.Is(err, workflow.ErrRunNotFound) {
			return nil // The result shows whether the run received the message.
		}
		return err
	})
	e.await(ctx, run, j)
}

// await waits for the end of a run and records how it ended.
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
			harm.Pause(ctx, 100*time.Millisecond)
			continue
		}
		still, where := e.standstill(ctx, run)
		e.mu.Lock()
		j.done, j.wrong, j.still, j.where = true, wrong, still, where
		e.mu.Unlock()
		return
	}
}

// standstill returns the longest time between two events of a run, and a description of the event
// before that time. The duration of steps and sleeps is subtracted from the time.
func (e *experiment) standstill(ctx context.Context, run *workflow.Run[int]) (still time.Duration, where string) {
	harm.Insist(ctx, func(ctx context.Context) error {
		var last event.Event
		for ev, err := range run.Events(ctx) {
			if err != nil {
				return nil // A key of the log was deleted, or the result shows the problem.
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
