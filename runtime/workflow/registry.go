package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/internal/seam"
	"github.com/flowgen/flowgen/runtime/store"
)

// Registrar is what generated Register functions take: a *worker.Worker.
type Registrar interface{ Registry() *Registry }

// Registry holds the workflows and steps that a worker knows. Generated code
// fills it.
type Registry struct {
	mu        sync.RWMutex
	sealed    bool
	workflows map[string]*boundWorkflow
	steps     map[string]*boundStep
	wrap      func(name string, spec *StepSpec, impl StepFunc) StepFunc // nil but in a test kit
	secret    func(run RunID, key string) string
}

// NewRegistry returns an empty registry.
func NewRegistry() *Registry {
	return &Registry{workflows: map[string]*boundWorkflow{}, steps: map[string]*boundStep{}, secret: secret}
}

type boundWorkflow struct {
	def  *definition
	code string // the function and where it stands
	run  func(ctx Context, input []byte) (result []byte, err error)

	standIn *StepPlan // what a test kit executes instead; nil: run
}

type boundStep struct {
	spec *StepSpec
	code string
	call func(ctx context.Context, args []byte) (result []byte, err error)
}

// env is what workflow code gets from its worker.
type env struct {
	limits   *limits
	logger   *slog.Logger
	children int                                // of one run at once
	secret   func(run RunID, key string) string // of the token of a hook
}

// StepSpec describes a step; generated code makes one for each.
type StepSpec struct {
	Name          string
	Retry         RetryPolicy
	Timeout       time.Duration // per attempt; 0: DefaultAttemptTimeout
	NonIdempotent bool
	Fatal         func(error) bool // errors that are not worth another attempt; may be nil
	Queue         string           // whose workers execute it; empty: that of the run
}

// Seal ends registration: the worker has started.
func (r *Registry) Seal(seam.Gate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sealed = true
}

// describe names a function by its place, so that the same name registered
// twice can be told apart from the same function.
func describe(f any) string {
	fn := runtime.FuncForPC(reflect.ValueOf(f).Pointer())
	if fn == nil {
		return "unknown"
	}
	file, line := fn.FileLine(fn.Entry())
	return fmt.Sprintf("%s (%s:%d)", fn.Name(), file, line)
}

func (r *Registry) admit(kind, name, code string, known func() (string, bool)) {
	if r.sealed {
		panic(fmt.Sprintf("register %s %s: the worker runs already: register everything before Run", kind, name))
	}
	if old, dup := known(); dup {
		panic(fmt.Sprintf("register %s %s: the name is taken by %s, now %s: call Register once, or give one of them another name with name=", kind, name, old, code))
	}
}

// BindStep makes the implementation of a step known. It panics if the name is
// taken or the worker has started.
func (r *Registry) BindStep(_ seam.Gate, spec *StepSpec, impl any, call func(ctx context.Context, args []byte) ([]byte, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	code := describe(impl)
	r.admit("step", spec.Name, code, func() (string, bool) {
		if old := r.steps[spec.Name]; old != nil {
			return old.code, true
		}
		return "", false
	})
	r.steps[spec.Name] = &boundStep{spec: spec, code: code, call: call}
}

// BindDefinition makes the implementation of a workflow known. It panics if the
// name is taken or the worker has started.
func BindDefinition[In, Out any](_ seam.Gate, r *Registry, d Definition[In, Out], f func(Context, In) (Out, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	def, code := d.def(), describe(f)
	if old := r.workflows[def.name]; old != nil && old.standIn != nil {
		return
	}
	r.admit("workflow", def.name, code, func() (string, bool) {
		if old := r.workflows[def.name]; old != nil {
			return old.code, true
		}
		return "", false
	})
	r.workflows[def.name] = &boundWorkflow{def: def, code: code, run: func(ctx Context, input []byte) ([]byte, error) {
		var in In
		all, err := def.decodeInput(input, &in)
		if err != nil {
			return nil, err
		}
		if !all {
			def.refuseRenamed(ctx, input, in)
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		if _, none := any(out).(None); none {
			return nil, nil
		}
		return ctx.encode("result of workflow "+def.name, out)
	}}
}

// WorkflowNames returns the names of the workflows, each with the queue that its
// directive names, sorted.
func (r *Registry) WorkflowNames(seam.Gate) []store.Class {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []store.Class
	for name, w := range r.workflows {
		all = append(all, store.Class{Queue: w.def.queue, Workflow: name})
	}
	slices.SortFunc(all, func(a, b store.Class) int { return strings.Compare(a.Workflow, b.Workflow) })
	return all
}

// StepRuns returns the classes of the runs that execute a step for other runs, in
// these queues; without any, one for each step that has a queue of its own. Sorted.
func (r *Registry) StepRuns(_ seam.Gate, queues []string) []store.Class {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []store.Class
	for name, s := range r.steps {
		for _, q := range queues {
			all = append(all, store.Class{Queue: q, Workflow: event.StepRun(name)})
		}
		if len(queues) == 0 && s.spec.Queue != "" {
			all = append(all, store.Class{Queue: s.spec.Queue, Workflow: event.StepRun(name)})
		}
	}
	slices.SortStableFunc(all, func(a, b store.Class) int { return strings.Compare(a.Workflow, b.Workflow) })
	return all
}

// Code returns a line for each workflow and step that says which function it is
// bound to, sorted: part of the fingerprint of what a worker runs.
func (r *Registry) Code(seam.Gate) []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []string
	for name, w := range r.workflows {
		all = append(all, "workflow "+name+" "+w.code)
	}
	for name, s := range r.steps {
		all = append(all, "step "+name+" "+s.code)
	}
	slices.Sort(all)
	return all
}

// StepFunc is the implementation of a step: from arguments to result, both in
// their stored form.
type StepFunc func(ctx context.Context, args []byte) (result []byte, err error)

// Step returns the implementation of a step.
func (r *Registry) Step(_ seam.Gate, name string) (StepFunc, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.steps[name]
	if r.wrap != nil {
		f := r.wrapped(name, s)
		return f, f != nil
	}
	if s == nil {
		return nil, false
	}
	return s.call, true
}

// Program returns the code of a workflow, and the last element of its name. The
// code logs to logger.
func (r *Registry) Program(_ seam.Gate, name string, c *Client, logger *slog.Logger) (program replay.Program, short string, ok bool) {
	r.mu.RLock()
	w := r.workflows[name]
	r.mu.RUnlock()
	if spec := r.stepOfRun(name); spec != nil {
		return stepProgram(spec), lastName(name), true
	}
	if name == event.HookRun {
		return holdToken, lastName(name), true
	}
	if w == nil {
		return nil, "", false
	}
	if w.standIn != nil {
		return standInProgram(w.standIn), lastName(name), true
	}
	e := &env{limits: &c.limits, logger: logger, children: cmp.Or(w.def.children, DefaultChildren), secret: r.secret}
	short = lastName(name)
	return func(b *replay.Branch, s *replay.Scope, input []byte) replay.Ending {
		payload, err := w.run(Context{b: b, s: s, env: e}, input)
		if c, ok := errors.AsType[*continuation](err); ok && c.workflow == name {
			return replay.Ending{Type: event.RunContinued, Payload: c.input}
		}
		if err != nil {
			return ending(s, err)
		}
		return replay.Ending{Type: event.RunCompleted, Payload: payload}
	}, short, true
}

// ending says how a run ends whose code returned err: as canceled only if the
// run was told to end and the code says that this is why.
func ending(root *replay.Scope, err error) replay.Ending {
	code := failure.CodeOf(err) // also of a step's error that the workflow has wrapped
	if code == "" {
		code = event.CodeError
	}
	e := replay.Ending{Type: event.RunFailed, Failure: failure.Encode(err, code)}
	switch {
	case errors.Is(root.Err(), ErrCanceled) && isEnd(err, ErrCanceled):
		if limit := root.Limit(); limit != nil {
			e.Failure = &event.Failure{Code: limit.Code, Message: limit.Message, Causes: []*event.Failure{e.Failure}}
			break
		}
		e.Type, e.Failure.Code = event.RunCanceled, event.CodeCanceled
		if why := root.CancelReason(); why != "" {
			e.Failure.Message = failure.Cut(e.Failure.Message+": "+why, failure.MaxText)
		}
	case errors.Is(root.Err(), ErrTimeout) && isEnd(err, ErrTimeout):
		e.Failure.Code = event.CodeTimeout
	}
	return e
}
