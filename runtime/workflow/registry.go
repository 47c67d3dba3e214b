package workflow

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/flowgen/flowgen/internal/jsonschema"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// Registrar is the parameter of generated Register functions: a *worker.Worker.
type Registrar interface{ Registry() *Registry }

// Registry contains the workflows and steps of a worker. Generated code fills it. The zero Registry
// is empty.
type Registry struct{ r registry }

// registry implements [flow.Registry].
type registry struct {
	mu        sync.RWMutex
	sealed    bool
	workflows map[string]*boundWorkflow
	steps     map[string]*boundStep
	observer  flow.Observer // only set in tests with package workflowtest
}

type boundWorkflow struct {
	def  *definition
	code string // name and position of the function
	run  func(ctx Context, input []byte) (result []byte, err error)

	program atomic.Pointer[boundProgram] // the program for the worker that uses the registry
	graph   *store.CatalogGraph          // graph that the code executes; nil: unknown
	standIn *flow.StepPlan               // plan of the stand-in that a test executes instead of run; nil: none
}

// boundProgram is the program of a workflow for one worker. It has no state, so all runs of the
// workflow on the worker share it.
type boundProgram struct {
	client  *Client
	logger  *slog.Logger
	execute replay.Program
}

type boundStep struct {
	spec *flow.StepSpec
	code string
	call flow.StepFunc
}

// Seal ends the registration of workflows and steps.
func (r *registry) Seal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sealed = true
}

// describe returns the name and position of a function. With this text, a second registration of
// the same function can be distinguished from a registration of another function under the same
// name.
func describe(f any) string {
	fn := runtime.FuncForPC(reflect.ValueOf(f).Pointer())
	if fn == nil {
		return "unknown"
	}
	file, line := fn.FileLine(fn.Entry())
	return fmt.Sprintf("%s (%s:%d)", fn.Name(), file, line)
}

func (r *registry) admit(kind, name, code string, known func() (string, bool)) {
	if r.sealed {
		panic(fmt.Sprintf("register %s %s: the worker runs already: register everything before Run", kind, name))
	}
	if old, dup := known(); dup {
		panic(fmt.Sprintf("register %s %s: the name is taken by %s, now %s: call Register once, or give one of them another name with name=", kind, name, old, code))
	}
}

// BindStep registers the implementation of a step.
func (r *registry) BindStep(spec *flow.StepSpec, impl any, call flow.StepFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	code := describe(impl)
	r.admit("step", spec.Name, code, func() (string, bool) {
		if old := r.steps[spec.Name]; old != nil {
			return old.code, true
		}
		return "", false
	})
	if r.steps == nil {
		r.steps = map[string]*boundStep{}
	}
	r.steps[spec.Name] = &boundStep{spec: spec, code: code, call: call}
}

// bind registers the implementation of the workflow in r. f is a func(Context, In) (Out, error), or
// a func(Context, []In) (Out, error) for a workflow that receives the inputs of several starts.
func (d Definition[In, Out]) bind(r *registry, f any) {
	if all, ok := f.(func(Context, []In) (Out, error)); ok {
		r.bindWorkflow(bound(d.def(), all, describe(f)))
		return
	}
	r.bindWorkflow(bound(d.def(), f.(func(Context, In) (Out, error)), describe(f)))
}

// bound returns the workflow with its implementation. In is the type of its input.
func bound[In, Out any](def *definition, code func(Context, In) (Out, error), described string) *boundWorkflow {
	return &boundWorkflow{def: def, code: described, run: func(ctx Context, input []byte) ([]byte, error) {
		var in In
		all, err := def.decodeInput(input, &in)
		if err != nil {
			return nil, err
		}
		if !all {
			def.refuseRenamed(ctx, input, in)
		}
		out, err := code(ctx, in)
		if err != nil {
			return nil, err
		}
		if _, none := any(out).(None); none {
			return nil, nil
		}
		return ctx.encode(def.outputName, out)
	}}
}

// bindWorkflow registers the implementation of a workflow, unless the workflow has a stand-in.
func (r *registry) bindWorkflow(w *boundWorkflow) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := w.def.name
	if old := r.workflows[name]; old != nil && old.standIn != nil {
		return
	}
	r.admit("workflow", name, w.code, func() (string, bool) {
		if old := r.workflows[name]; old != nil {
			return old.code, true
		}
		return "", false
	})
	r.put(w)
}

func (r *registry) put(w *boundWorkflow) {
	if r.workflows == nil {
		r.workflows = map[string]*boundWorkflow{}
	}
	r.workflows[w.def.name] = w
}

// DescribeGraph sets the nodes of a workflow for the catalog.
func (r *registry) DescribeGraph(name string, nodes []store.CatalogNode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.workflows[name]; w.standIn == nil {
		w.graph = store.NewCatalogGraph(nodes)
	}
}

// MissingReceiver reports a missing receiver to the observer of a test. It returns false if there
// is no observer.
func (r *registry) MissingReceiver(what, step string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.observer.Missing == nil {
		return false
	}
	r.observer.Missing(what, step)
	return true
}

// WorkflowNames returns the names of the workflows with the queues of their directives, sorted by
// name.
func (r *registry) WorkflowNames() []store.Route {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []store.Route
	for name, w := range r.workflows {
		all = append(all, store.Route{Queue: w.def.queue, Workflow: name})
	}
	slices.SortFunc(all, func(a, b store.Route) int { return strings.Compare(a.Workflow, b.Workflow) })
	return all
}

// Rerun returns the policy for automatic reruns of a workflow.
func (r *registry) Rerun(name string) flow.Retry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if w := r.workflows[name]; w != nil {
		return w.def.rerun
	}
	return flow.Retry{}
}

// StepRuns returns the routes of the runs that execute steps for other runs, sorted by workflow. If
// queues is empty, it returns one route for each step with its own queue. Otherwise it returns the
// routes on the given queues.
func (r *registry) StepRuns(queues []string) []store.Route {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []store.Route
	for name, s := range r.steps {
		for _, q := range queues {
			all = append(all, store.Route{Queue: q, Workflow: event.StepRun(name)})
		}
		if len(queues) == 0 && s.spec.Queue != "" {
			all = append(all, store.Route{Queue: s.spec.Queue, Workflow: event.StepRun(name)})
		}
	}
	slices.SortStableFunc(all, func(a, b store.Route) int { return strings.Compare(a.Workflow, b.Workflow) })
	return all
}

// LimitedSteps returns the names of the steps that use limits, sorted.
func (r *registry) LimitedSteps() []string {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []string
	for name, s := range r.steps {
		if s.spec.Uses != nil {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all
}

// Code returns a sorted list with a line for each workflow and step. A line contains the name and
// the implementing function. The lines are part of the fingerprint of the worker's build.
func (r *registry) Code() []string {
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

// Step returns the implementation of a step.
func (r *registry) Step(name string) (flow.StepFunc, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.steps[name]
	if name == event.ReadStep {
		s = reads
	}
	if wrap := r.observer.Wrap; wrap != nil {
		var f flow.StepFunc
		if s == nil {
			f = wrap(name, nil, nil)
		} else {
			f = wrap(name, s.spec, s.call)
		}
		return f, f != nil
	}
	if s == nil {
		return nil, false
	}
	return s.call, true
}

// Program returns the code of a workflow, and the last element of the workflow's name.
func (r *registry) Program(name string, c flow.Client, logger *slog.Logger) (program replay.Program, short string, ok bool) {
	r.mu.RLock()
	w, losers := r.workflows[name], r.observer.Losers
	r.mu.RUnlock()
	if spec := r.stepOfRun(name); spec != nil {
		return flow.StepProgram(spec), lastName(name), true
	}
	if name == event.HookRun {
		return holdToken, lastName(name), true
	}
	if name == event.PermitRun {
		return holdPermits, lastName(name), true
	}
	if w == nil && name == event.ScheduleRun {
		w = scheduleCode
	}
	if w == nil {
		return nil, "", false
	}
	if w.standIn != nil {
		return standInProgram(w.standIn), lastName(name), true
	}
	client := c.(engineClient).c
	shared := losers == nil && w != scheduleCode // scheduleCode belongs to all registries
	if p := w.program.Load(); shared && p != nil && p.client == client && p.logger == logger {
		return p.execute, lastName(name), true
	}
	e := &flow.Env{Limits: &client.limits, Partitions: client.store.Partitions(), Logger: logger, Children: cmp.Or(w.def.children, flow.DefaultChildren), Token: r.HookToken}
	program = func(b *replay.Branch, s *replay.Scope, input []byte) replay.Ending {
		if losers != nil {
			b.Run().WatchLosers()
		}
		if end := awaitPermits(b, s); end != nil {
			return *end
		}
		payload, err := w.run(Context(flow.NewContext(b, s, e)), input)
		if losers != nil {
			losers(name, b.Run().Losers())
		}
		if c, ok := errors.AsType[*continuation](err); ok && c.workflow == name {
			return replay.Ending{Type: event.RunContinued, Payload: c.input, Queue: c.queue}
		}
		if err != nil {
			return flow.Ending(s, err)
		}
		return replay.Ending{Type: event.RunCompleted, Payload: payload}
	}
	if shared {
		w.program.Store(&boundProgram{client, logger, program})
	}
	return program, lastName(name), true
}

// HookToken returns the token of a hook. It consists of the ID of the run and a random part.
func (r *registry) HookToken(run RunID, key string) string {
	r.mu.RLock()
	secretOf := r.observer.Secret
	r.mu.RUnlock()
	if secretOf == nil {
		secretOf = secret
	}
	return string(run) + tokenMark + secretOf(run, key)
}

// Observe sets the observer of a test. The observer is called between a worker and the registered
// functions.
func (r *registry) Observe(o flow.Observer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observer = o
}

// Catalog implements [flow.Registry].
func (r *registry) Catalog() []store.CatalogEntry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []store.CatalogEntry
	for name, w := range r.workflows {
		all = append(all, store.CatalogEntry{Workflow: name, Versions: []store.CatalogVersion{{
			Queue: w.def.queue, Input: schemaOf(w.def.in, w.def.param), Output: schemaOf(w.def.out, ""), Limits: limitsOf(w.def.uses), Graph: w.graph,
		}}})
	}
	for name, s := range r.steps {
		if limits := limitsOf(s.spec.Uses); len(limits) > 0 {
			all = append(all, store.CatalogEntry{Workflow: event.StepRun(name), Versions: []store.CatalogVersion{{Queue: s.spec.Queue, Limits: limits}}})
		}
	}
	slices.SortFunc(all, func(a, b store.CatalogEntry) int { return cmp.Compare(a.Workflow, b.Workflow) })
	return all
}

// limitsOf returns the names of the limits that a directive uses. Only the keys and weights depend
// on the input, so the function is called with a nil input. If it panics, limitsOf returns nil.
func limitsOf(uses func(input any) []permits.Use) (names []string) {
	if uses == nil {
		return nil
	}
	defer func() {
		if recover() != nil { // code of the user may panic, for example a method of a nil pointer
			names = nil
		}
	}()
	for _, u := range uses(nil) {
		names = append(names, u.Limit)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// schemaOf returns the schema of the stored form of a type. param is the name of the parameter. It
// is empty if the value itself is stored.
func schemaOf(t reflect.Type, param string) json.RawMessage {
	switch t {
	case nil: // the type is unknown, because the definition was not generated
		return nil
	case reflect.TypeFor[None]():
		return json.RawMessage(`{"type":"null"}`)
	}
	return jsonschema.Of(t, param)
}
