package flow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/flowgen/flowgen/internal/jsonschema"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
)

// Registry is the representation of a workflow.Registry. It contains the workflows and steps of a
// worker, and is safe for concurrent use. The zero Registry is empty.
type Registry struct {
	mu        sync.RWMutex
	sealed    bool
	workflows map[string]*boundWorkflow
	steps     map[string]*boundStep
	observer  Observer // only set in tests with package workflowtest
	kit       Kit
}

type boundWorkflow struct {
	def  *DefinitionSpec
	code string // name and position of the function
	run  Code

	program atomic.Pointer[boundProgram] // the program for the worker that uses the registry
	graph   *store.CatalogGraph          // graph that the code executes; nil: unknown
	standIn *StepPlan                    // plan of the stand-in that a test executes instead of run; nil: none
}

type boundStep struct {
	spec *StepSpec
	code string
	call StepFunc
}

// Seal ends the registration of workflows and steps.
func (r *Registry) Seal() {
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

// admit panics if the worker runs or if old, the code that is registered under the name, is not
// empty.
func (r *Registry) admit(kind, name, code, old string) {
	if r.sealed {
		panic(fmt.Sprintf("register %s %s: the worker runs already: register everything before Run", kind, name))
	}
	if old != "" {
		panic(fmt.Sprintf("register %s %s: the name is taken by %s, now %s: call Register once, or give one of them another name with name=", kind, name, old, code))
	}
}

// BindStep registers the implementation of a step.
func (r *Registry) BindStep(spec *StepSpec, impl any, call StepFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &boundStep{spec: spec, code: describe(impl), call: call}
	old := ""
	if known := r.steps[spec.Name]; known != nil {
		old = known.code
	}
	r.admit("step", spec.Name, s.code, old)
	if r.steps == nil {
		r.steps = map[string]*boundStep{}
	}
	r.steps[spec.Name] = s
}

// BindWorkflow registers the implementation f of a workflow, whose code is run, unless the workflow
// has a stand-in. It panics if the name is taken or the worker has started.
func (r *Registry) BindWorkflow(d *DefinitionSpec, f any, run Code) {
	w := &boundWorkflow{def: d, code: describe(f), run: run}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := ""
	if known := r.workflows[d.Name]; known != nil {
		if known.standIn != nil {
			return
		}
		old = known.code
	}
	r.admit("workflow", d.Name, w.code, old)
	r.put(w)
}

func (r *Registry) put(w *boundWorkflow) {
	if r.workflows == nil {
		r.workflows = map[string]*boundWorkflow{}
	}
	r.workflows[w.def.Name] = w
}

// DescribeGraph sets the nodes of a workflow for the catalog.
func (r *Registry) DescribeGraph(name string, nodes []store.CatalogNode) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if w := r.workflows[name]; w.standIn == nil {
		w.graph = store.NewCatalogGraph(nodes)
	}
}

// MissingReceiver reports a missing receiver to the observer of a test. It returns false if there
// is no observer.
func (r *Registry) MissingReceiver(what, step string) bool {
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
func (r *Registry) WorkflowNames() []store.Route {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []store.Route
	for name, w := range r.workflows {
		all = append(all, store.Route{Queue: w.def.Queue, Workflow: name})
	}
	slices.SortFunc(all, func(a, b store.Route) int { return strings.Compare(a.Workflow, b.Workflow) })
	return all
}

// Rerun returns the policy for automatic reruns of a workflow.
func (r *Registry) Rerun(name string) Retry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if w := r.workflows[name]; w != nil {
		return w.def.Rerun
	}
	return Retry{}
}

// Pinned reports whether the runs of a workflow are pinned to builds.
func (r *Registry) Pinned(name string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	w := r.workflows[name]
	return w != nil && w.def.Pin
}

// StepRuns returns the routes of the runs that execute steps for other runs, sorted by
// workflow. If queues is empty, it returns one route for each step with its own queue. Otherwise it
// returns the routes on the given queues.
func (r *Registry) StepRuns(queues []string) []store.Route {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []store.Route
	for name, s := range r.steps {
		on := queues
		if len(queues) == 0 && s.spec.Queue != "" {
			on = []string{s.spec.Queue}
		}
		for _, q := range on {
			all = append(all, store.Route{Queue: q, Workflow: event.StepRun(name)})
		}
	}
	slices.SortStableFunc(all, func(a, b store.Route) int { return strings.Compare(a.Workflow, b.Workflow) })
	return all
}

// StepSpecs returns the descriptions of the steps, sorted by name.
func (r *Registry) StepSpecs() []*StepSpec {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []*StepSpec
	for _, s := range r.steps {
		all = append(all, s.spec)
	}
	slices.SortFunc(all, func(a, b *StepSpec) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// LimitedSteps returns the names of the steps that use limits, sorted.
func (r *Registry) LimitedSteps() []string {
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
func (r *Registry) Code() []string {
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
func (r *Registry) Step(name string) (StepFunc, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	s := r.steps[name]
	if name == event.ReadStep {
		s = reads
	}
	if s == nil {
		s = &boundStep{}
	}
	f := s.call
	if wrap := r.observer.Wrap; wrap != nil {
		f = wrap(name, s.spec, s.call)
	}
	return f, f != nil
}

// HookToken returns the token of a hook. It consists of the ID of the run and a random part.
func (r *Registry) HookToken(run event.RunID, key string) string {
	r.mu.RLock()
	secretOf := r.observer.Secret
	r.mu.RUnlock()
	if secretOf == nil {
		secretOf = secret
	}
	return string(run) + TokenMark + secretOf(run, key)
}

// Observe sets the observer of a test. The observer is called between a worker and the registered
// functions.
func (r *Registry) Observe(o Observer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observer = o
}

// Catalog returns the catalogue entry of each workflow, sorted by name. Each entry has one version,
// without a build.
func (r *Registry) Catalog() []store.CatalogEntry {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []store.CatalogEntry
	for name, w := range r.workflows {
		all = append(all, store.CatalogEntry{Workflow: name, Versions: []store.CatalogVersion{{
			Queue: w.def.Queue, Input: schemaOf(w.def.In, w.def.Param), Output: schemaOf(w.def.Out, ""), Limits: limitsOf(w.def.Uses), Graph: w.graph,
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
	case reflect.TypeFor[Nothing]():
		return json.RawMessage(`{"type":"null"}`)
	}
	return jsonschema.Of(t, param)
}

// Scheduled returns the workflows whose directives declare a schedule.
func (r *Registry) Scheduled() []*DefinitionSpec {
	r.mu.RLock()
	defer r.mu.RUnlock()
	var all []*DefinitionSpec
	for _, w := range r.workflows {
		if w.def.Schedule != "" {
			all = append(all, w.def)
		}
	}
	return all
}

// Observer contains functions of a test kit. They are called around registered steps and workflows.
// A nil function has no effect.
type Observer struct {
	// Wrap returns the function that a worker calls for a step. impl is the implementation of the
	// step, or nil if it has none. If Wrap returns nil, the step counts as not registered.
	Wrap func(name string, spec *StepSpec, impl StepFunc) StepFunc
	// Secret returns the token of a hook, so that tokens are reproducible. The token has 22
	// characters and depends on the run and the key of the operation.
	Secret func(run event.RunID, key string) string
	// Missing is called with each step whose receiver is nil.
	Missing func(what, step string)
	// Losers is called when the code of a run has returned. taken lists the messages that were
	// taken by branches that had lost a race; see replay.Run.Losers.
	Losers func(workflow string, taken []string)
}
