package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/internal/seam"
	"github.com/flowgen/flowgen/runtime/store"
)

func isEnd(err, end error) bool { return errors.Is(err, end) }

// StepPlan says how a step that workflow code has asked for is to be executed:
// its directive, changed by the options of the call's context.
type StepPlan struct {
	Spec    *StepSpec
	Retry   RetryPolicy
	Timeout time.Duration
	Queue   string  // whose workers execute it; empty: in place
	Caller  *Caller // whose step it is, if that is another run; nil: its own

	input, result string // what errors call them
}

// PlanOf returns the plan of a step. It is for the worker.
func PlanOf(_ seam.Gate, op *replay.Op) *StepPlan {
	p, _ := op.Meta.(*StepPlan)
	return p
}

// plan returns the plan of a call. Calls without options share one.
func (ctx Context) plan(shared *StepPlan) *StepPlan {
	if ctx.steps == nil {
		return shared
	}
	p := *shared
	if ctx.steps.retry != nil {
		p.Retry = *ctx.steps.retry
	}
	if ctx.steps.timeout > 0 {
		p.Timeout = ctx.steps.timeout
	}
	if q := ctx.steps.queue; q != "" {
		if p.Queue = q; q == ctx.branch().Spec().Queue {
			p.Queue = ""
		}
	}
	return &p
}

// NewPlan returns the plan of a step without options.
func NewPlan(_ seam.Gate, spec *StepSpec) *StepPlan {
	p := &StepPlan{
		Spec: spec, Retry: spec.Retry, Timeout: spec.Timeout, Queue: spec.Queue,
		input: "input of step " + spec.Name, result: "result of step " + spec.Name,
	}
	if p.Timeout <= 0 {
		p.Timeout = DefaultAttemptTimeout
	}
	return p
}

// CallStep asks for a step, waits for it, and reads its result into out, which
// may be nil. A key replaces the ordinal if keyed. It is for package shim.
func CallStep[A any](_ seam.Gate, ctx Context, p *StepPlan, key string, keyed bool, args A, out any) error {
	b := ctx.branch()
	b.Gate()
	if err := ctx.Err(); err != nil {
		// Also when the log is replayed: whether the context has ended is in it.
		return &StepError{Run: b.Run().ID(), Step: p.Spec.Name, Code: event.CodeCanceled, Key: p.Spec.Name,
			failure: replay.CancelFailure(err), cause: err}
	}
	input, err := ctx.encode(p.input, args)
	if err != nil {
		return err
	}
	if ctx.steps != nil && ctx.steps.key != nil {
		key, keyed = *ctx.steps.key, true
	}
	if keyed {
		if err := store.CheckName("key of step "+p.Spec.Name, key); err != nil {
			return err
		}
		key = b.DeclaredKey(p.Spec.Name, key)
	} else {
		key = b.Key(p.Spec.Name)
	}
	op, err := ctx.await(ctx.plan(p), key, input, func(recorded []byte) string { return differs[A](b, recorded, input) })
	if err != nil {
		return err
	}
	if out == nil {
		return nil
	}
	return decode(p.result, op.Payload, out)
}

// await asks for a step, here or on its own queue, and waits for it.
func (ctx Context) await(p *StepPlan, key string, input []byte, same func(recorded []byte) string) (*replay.Op, error) {
	if p.Queue != "" {
		return ctx.callRemote(p, key, input, same)
	}
	b := ctx.branch()
	op := b.Step(ctx.s, p.Spec.Name, key, input, p, same)
	b.AwaitStep(op)
	if op.Failure != nil {
		return nil, &StepError{Run: b.Run().ID(), Step: op.Name, Key: op.Key, Attempts: op.Attempt, Code: op.Failure.Code,
			failure: op.Failure, cause: op.Canceled}
	}
	return op, nil
}

// differs compares the recorded arguments with those asked for, by value: the
// record is read into today's type and written again, so that a field that was
// added or removed since does not count. If a name was changed, b is told.
func differs[A any](b *replay.Branch, recorded, asked []byte) string {
	if bytes.Equal(recorded, asked) {
		return ""
	}
	var a A
	if err := json.Unmarshal(recorded, &a); err == nil {
		if again, err := json.Marshal(a); err == nil {
			if bytes.Equal(again, asked) {
				return ""
			}
			b.Renamed(replay.FindRenaming(recorded, again))
		}
	}
	return replay.DiffJSON(recorded, asked)
}
