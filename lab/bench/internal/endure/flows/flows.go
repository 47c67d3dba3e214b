// Package flows is the workload of the endurance test. The results of its workflows can be computed
// from their inputs, regardless of failures of workers and of the server.
package flows

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
)

//go:generate go run github.com/flowgen/flowgen/cmd/flowgen

// Build is the number of the build that a worker simulates. The first call of Version in a journey
// records the version of the newest build. Older builds cannot replay the run after that.
var Build = 1

// Post is the topic on which a journey receives a number.
var Post = workflow.NewTopic[int]("endure.post")

// Job is the input of a journey. A journey is one run of the workload.
type Job struct {
	ID    int `json:"id"`
	Steps int `json:"steps"`
	Work  int `json:"work"` // duration of each step in milliseconds
	Nap   int `json:"nap"`  // sleep after each step in milliseconds
}

// Want returns the required result of a journey.
func (j Job) Want() int {
	return j.Steps*(j.Steps-1)/2 + j.ID + j.Message()
}

// Message returns the number that the driver sends to a journey.
func (j Job) Message() int { return 7 * j.ID }

// journey executes its steps in sequence, starts a child, and receives a message.
//
//flow:workflow
func journey(ctx workflow.Context, job Job) (int, error) {
	sum := 0
	for i := range job.Steps {
		n, err := Work(ctx, job, i)
		if err != nil {
			return 0, err
		}
		sum += n
		//flow:ignore version each build of this program is linked with another number, which is the point
		if workflow.Version(ctx, "build", Build)%2 == 0 { // The behavior alternates between builds.
			if err := Toll(ctx, i); err != nil {
				return 0, err
			}
		}
		if err := workflow.Sleep(ctx, time.Duration(job.Nap)*time.Millisecond); err != nil {
			return 0, err
		}
	}
	n, err := Errand.Child(ctx, job)
	if err != nil {
		return 0, err
	}
	told, err := Post.Receive(ctx)
	return sum + n + told, err
}

// errand is the child workflow of a journey.
//
//flow:workflow
func errand(ctx workflow.Context, job Job) (int, error) {
	if _, err := Work(ctx, job, 0); err != nil {
		return 0, err
	}
	return job.ID, nil
}

// pieces is the number of parts of the work.
const pieces = 10

// work takes a long time. An attempt continues at the point where the previous attempt stopped.
//
//flow:step retries=8 backoff=constant(50ms)
func work(ctx context.Context, job Job, i int) (int, error) {
	begin, _ := step.LastHeartbeat[int](ctx)
	for p := begin; p < pieces; p++ {
		if err := harm.Rest(ctx, time.Duration(job.Work)*time.Millisecond/pieces); err != nil {
			return 0, err
		}
		if err := step.Heartbeat(ctx, p+1); err != nil {
			return 0, err
		}
	}
	return i, nil
}

// toll is a step that only every second build executes.
//
//flow:step retries=8 backoff=constant(50ms)
func toll(ctx context.Context, at int) error { return ctx.Err() } //nolint:revive // an argument is stored under its name
