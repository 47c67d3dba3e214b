package flows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/lab/internal/harm/record"
	"github.com/flowgen/flowgen/runtime/step"
)

// Hands contains the steps of the workload. Each step records its executions in Record.
type Hands struct{ Record *record.Writer }

// errRefused is the error of the steps that fail permanently.
var errRefused = errors.New("refused")

// execute runs the code of a step. It records the beginning and the outcome.
func execute[T any](ctx context.Context, h *Hands, code func() (T, error)) (v T, err error) {
	call, _ := step.Current(ctx)
	if err := h.Record.Begin(call); err != nil {
		return v, err
	}
	outcome := record.Failed // The outcome remains Failed if the code panics.
	defer func() {
		if e := h.Record.End(call, outcome); e != nil && err == nil {
			err = e
		}
	}()
	if v, err = code(); err == nil {
		outcome = record.Done
	}
	return v, err
}

// add returns a number. The first attempts may fail or panic.
//
//flow:step retries=1000 backoff=constant(5ms)
func (h *Hands) add(ctx context.Context, job Job, n int) (int, error) {
	return execute(ctx, h, func() (int, error) {
		if err := harm.Rest(ctx, time.Duration(job.draw(8, "rest", n))*time.Millisecond); err != nil {
			return 0, err
		}
		return job.try(ctx, n)
	})
}

// try returns a number, or fails or panics if attempt must fail.
func (j Job) try(ctx context.Context, n int) (int, error) {
	attempt := step.Attempt(ctx)
	switch {
	case attempt > j.failures(n):
		return j.value(n), nil
	case j.draw(2, "panics", n) == 0:
		panic(fmt.Sprintf("attempt %d panics", attempt))
	default:
		return 0, fmt.Errorf("attempt %d: %w", attempt, errRefused)
	}
}

// echo returns its argument.
//
//flow:step retries=1000 backoff=constant(5ms)
func (h *Hands) echo(ctx context.Context, text string) (string, error) {
	return execute(ctx, h, func() (string, error) { return text, nil })
}

// once is a step that must not be executed twice.
//
//flow:step nonidempotent
func (h *Hands) once(ctx context.Context, job Job) (int, error) {
	return execute(ctx, h, func() (int, error) {
		// The step ignores cancellation, because a part of it may have had its effect.
		err := harm.Rest(context.WithoutCancel(ctx), time.Duration(job.draw(20, "once"))*time.Millisecond)
		return job.value(only), err
	})
}

// refuse fails permanently.
//
//flow:step retries=1000
func (h *Hands) refuse(ctx context.Context) error {
	_, err := execute(ctx, h, func() (int, error) { return 0, step.Fatal(errRefused) })
	return err
}

// note records a message under its own key.
//
//flow:step key=m.Key() retries=1000 backoff=constant(5ms)
func (h *Hands) note(ctx context.Context, job Job, m Message) (int, error) {
	return execute(ctx, h, func() (int, error) { return job.value(noted + m.Number), nil })
}

// pieces is the number of parts of the work of grind.
const pieces = 10

// grind takes a long time. An attempt continues at the point where the previous attempt stopped.
//
//flow:step retries=1000 backoff=constant(5ms)
func (h *Hands) grind(ctx context.Context, job Job) (int, error) {
	return execute(ctx, h, func() (int, error) {
		begin, _ := step.LastHeartbeat[int](ctx)
		for i := begin; i < pieces; i++ {
			if err := harm.Rest(ctx, time.Duration(job.Work)*time.Millisecond/pieces); err != nil {
				return 0, err
			}
			if err := step.Heartbeat(ctx, i+1); err != nil {
				return 0, err
			}
		}
		return job.value(only), nil
	})
}

// clean is the cleanup of a canceled run.
//
//flow:step retries=1000 backoff=constant(5ms)
func (h *Hands) clean(ctx context.Context) error {
	_, err := execute(ctx, h, func() (int, error) { return 0, nil })
	return err
}
