// Package flows is the workload of the chaos program. Its workflows use all features. Their results
// can be computed from their inputs with [Job.Want], regardless of failures of workers.
package flows

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Post is the topic on which a run receives messages.
var Post = workflow.NewTopic[Message]("post")

// refusedValue is added to the result for a step that failed permanently.
const refusedValue = 1_000_000

// chain executes operations in sequence. They are steps that fail at first, a sleep, random values,
// a step that must not be repeated, and a step that fails permanently.
//
//flow:workflow
func chain(ctx workflow.Context, job Job) (Result, error) {
	var r Result
	id := workflow.UUID(ctx)
	for i := range job.Steps {
		n, err := Add(ctx, job, i)
		if err != nil {
			return r, err
		}
		r.Sum += n
		if i == job.Steps/2 {
			if err := workflow.Sleep(ctx, job.nap()); err != nil {
				return r, err
			}
		}
	}
	drawn := fmt.Sprint(id, workflow.Rand(ctx).IntN(1000), workflow.Now(ctx).UnixMilli())
	echo, err := Echo(ctx, drawn)
	if err != nil {
		return r, err
	}
	if echo != drawn {
		return r, fmt.Errorf("what was drawn has changed from %q to %q", echo, drawn)
	}
	n, err := Once(ctx, job)
	var failed *workflow.StepError
	switch {
	case errors.As(err, &failed) && failed.Code == "interrupted":
		r.Interrupted = true
	case err != nil:
		return r, err
	}
	r.Sum += n
	if err := Refuse(ctx); errors.As(err, &failed) && failed.Code == "fatal" {
		r.Sum += refusedValue
	}
	return r, nil
}

// fan executes operations in parallel. They are branches with a limit, races, and a branch that is
// canceled while its step executes.
//
//flow:workflow
func fan(ctx workflow.Context, job Job) (Result, error) {
	var r Result
	items := make([]int, job.Steps)
	for i := range items {
		items[i] = i
	}
	parts, err := workflow.Map(ctx, items, func(ctx workflow.Context, i int) (int, error) { return Add(ctx, job, i) }, workflow.Limit(3))
	if err != nil {
		return r, err
	}
	for _, n := range parts {
		r.Sum += n
	}
	race := func(ctx workflow.Context) (int, error) { return Add(ctx, job, raced) }
	first, err := workflow.First(ctx, workflow.Go(ctx, race), workflow.Go(ctx, race))
	if err != nil {
		return r, err
	}
	loses := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return 0, Refuse(ctx) })
	anyone, err := workflow.Any(ctx, loses, workflow.Go(ctx, race))
	if err != nil {
		return r, err
	}
	r.Sum += first + anyone
	slow := workflow.Go(ctx, func(ctx workflow.Context) (int, error) { return Grind(ctx, job) })
	_, err = workflow.Select(ctx, slow, workflow.After(job.nap()))
	return r, err
}

// mail receives the messages of several senders in three ways and records each message.
//
//flow:workflow
func mail(ctx workflow.Context, job Job) (Result, error) {
	var r Result
	for total := job.Senders * job.Messages; len(r.Messages) < total; {
		m, ok, err := take(ctx, len(r.Messages))
		if err != nil {
			return r, err
		}
		if !ok {
			continue
		}
		n, err := Note(ctx, job, m)
		if err != nil {
			return r, err
		}
		r.Sum += n
		r.Messages = append(r.Messages, m)
	}
	return r, nil
}

// patience is the timeout of a receive. After a timeout, the receive is repeated.
const patience = 3 * time.Second

func take(ctx workflow.Context, n int) (m Message, ok bool, err error) {
	if n%3 == 0 {
		if m, ok, err = Post.TryReceive(ctx); ok || err != nil {
			return m, ok, err
		}
	}
	if n%3 == 1 {
		post := Post.Case()
		won, err := workflow.Select(ctx, post, workflow.After(patience))
		return post.Value(), won == post, err
	}
	m, err = Post.Receive(ctx, workflow.Timeout(patience))
	if errors.Is(err, workflow.ErrTimeout) {
		return m, false, nil
	}
	return m, err == nil, err
}

// endless runs until it is canceled, and then executes its cleanup.
//
//flow:workflow
func endless(ctx workflow.Context, job Job) error {
	for i := 0; ; i++ {
		_, err := Add(ctx, job, i)
		if err == nil {
			err = workflow.Sleep(ctx, job.nap())
		}
		if err != nil {
			return errors.Join(err, Clean(workflow.Detached(ctx)))
		}
	}
}

// long has a step that takes longer than the duration of a claim.
//
//flow:workflow
func long(ctx workflow.Context, job Job) (Result, error) {
	n, err := Grind(ctx, job)
	return Result{Sum: n}, err
}

// doomed fails permanently.
//
//flow:workflow
func doomed(ctx workflow.Context, job Job) error {
	if _, err := Add(ctx, job, 0); err != nil {
		return err
	}
	return Refuse(ctx)
}
