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

// plan returns the plan of a call. Calls without options share one.
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

// newPlan is [engine.NewPlan].
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

// callStep is [engine.CallStep].
func callStep(ctx Context, p *engine.StepPlan, key string, keyed bool, args, out any) error {
	b := ctx.branch()
	b.Gate(ctx.s)
	if err := ctx.Err(); err != nil {
		// Also when the log is replayed: whether the context has ended is in it.
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

// limited returns the plan with the limits that the step uses, and nobody above it holds.
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

// await asks for a step, here or in a run of its own, and waits for it.
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

// bounded reports whether limits may keep a step waiting: then a run of its own takes the permits, and waits for them in line. Keys may be
// configured one by one, and each worker has its own limits: of these it is not known that nothing bounds them.
func bounded(r *replay.Run, uses []event.Use) bool {
	return slices.ContainsFunc(uses, func(u event.Use) bool {
		return u.Local || u.Key != "" || r.Unbounded == nil || !r.Unbounded(u.Limit)
	})
}

// differs compares the recorded arguments with those asked for, by value: the
// record is read into today's type and written again, so that a field that was
// added or removed since does not count. If a name was changed, b is told.
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
