package workflow

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

func isEnd(err, end error) bool { return errors.Is(err, end) }

// plan returns the plan of a call. Calls without options share one plan.
func (ctx Context) plan(shared *engine.StepPlan) *engine.StepPlan {
	if ctx.steps == nil {
		return shared
	}
	p := *shared
	if ctx.steps.retry != nil {
		p.Retry = engine.Retry(*ctx.steps.retry)
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

// newPlan implements [engine.NewPlan].
func newPlan(spec *engine.StepSpec) *engine.StepPlan {
	p := &engine.StepPlan{
		Spec: spec, Retry: spec.Retry, Timeout: spec.Timeout, Queue: spec.Queue,
		Input: "input of step " + spec.Name, Result: "result of step " + spec.Name,
	}
	if p.Timeout <= 0 {
		p.Timeout = DefaultAttemptTimeout
	}
	return p
}

// callStep implements [engine.CallStep].
func callStep(ctx Context, p *engine.StepPlan, key string, keyed bool, args, out any) error {
	b := ctx.branch()
	b.Gate(ctx.s)
	if err := ctx.Err(); err != nil {
		// This also holds during a replay, because the log records the end of the context.
		return &StepError{Run: b.Run().ID(), Step: p.Spec.Name, Code: event.CodeCanceled, Key: p.Spec.Name,
			failure: replay.CancelFailure(err), cause: err}
	}
	input, err := ctx.encode(p.Input, args)
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
	plan, err := limited(ctx.plan(p), args, b.Spec())
	if err != nil {
		return err
	}
	op, err := ctx.await(plan, key, input, func(recorded []byte) string { return differs(b, reflect.TypeOf(args), recorded, input) })
	if err != nil {
		return err
	}
	if out == nil {
		return nil
	}
	return decode(p.Result, op.Payload, out)
}

// limited returns the plan with the limits that the step uses, without those held by the run or the
// runs above it.
func limited(p *engine.StepPlan, args any, by *event.Spec) (*engine.StepPlan, error) {
	if p.Spec.Uses == nil {
		return p, nil
	}
	with := *p
	var err error
	with.Uses, with.Slot, err = permits.Merge(p.Spec.Uses(args))
	if err != nil {
		return nil, fmt.Errorf("step %s: %w", p.Spec.Name, err)
	}
	with.Uses = permits.Missing(with.Uses, by)
	return &with, nil
}

// await requests a step, in this run or in a separate one, and waits for it.
func (ctx Context) await(p *engine.StepPlan, key string, input []byte, same func(recorded []byte) string) (*replay.Op, error) {
	b := ctx.branch()
	if b.Apart(p.Spec.Name, p.Queue != "" || bounded(b.Run(), p.Uses)) {
		return ctx.callRemote(p, key, input, same)
	}
	op := b.Step(ctx.s, p.Spec.Name, key, input, p, same)
	b.AwaitStep(op)
	if op.Failure != nil {
		return nil, &StepError{Run: b.Run().ID(), Step: op.Name, Key: op.Key, Attempts: op.Attempt, Code: op.Failure.Code,
			failure: op.Failure, cause: op.Canceled}
	}
	return op, nil
}

// bounded reports whether limits may delay a step. In that case a separate run takes the permits,
// and waits for them in the limiter queue. A limit with a key, whose keys may be configured
// individually, and a limit per worker are always assumed to be bounded.
func bounded(r *replay.Run, uses []event.Use) bool {
	return slices.ContainsFunc(uses, func(u event.Use) bool {
		return u.Local || u.Key != "" || r.Unbounded == nil || !r.Unbounded(u.Limit)
	})
}

// differs compares the recorded arguments with the requested ones, by value: it decodes the record
// into the current type and encodes it again, so that added or removed fields do not count. It
// reports a renamed field to b.
func differs(b *replay.Branch, today reflect.Type, recorded, asked []byte) string {
	if bytes.Equal(recorded, asked) {
		return ""
	}
	args := reflect.New(today)
	if err := json.Unmarshal(recorded, args.Interface()); err == nil {
		if again, err := json.Marshal(args.Elem().Interface()); err == nil {
			if bytes.Equal(again, asked) {
				return ""
			}
			b.Renamed(replay.FindRenaming(recorded, again))
		}
	}
	return replay.DiffJSON(recorded, asked)
}
