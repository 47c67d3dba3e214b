package workflow

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/flowgen/flowgen/internal/jsonschema"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
)

// Catalog implements [engine.Registry].
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

// limitsOf returns the names of the limits that a directive uses. They do not depend on the input;
// only the keys and weights do. If the function panics for a nil input, limitsOf returns nil.
func limitsOf(uses func(input any) []permits.Use) (names []string) {
	if uses == nil {
		return nil
	}
	defer func() {
		if recover() != nil { // user code, such as a method of a nil pointer
			names = nil
		}
	}()
	for _, u := range uses(nil) {
		names = append(names, u.Limit)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// schemaOf returns the schema of the stored form of a type. param is the name of the parameter,
// empty if the value is stored as it is.
func schemaOf(t reflect.Type, param string) json.RawMessage {
	switch t {
	case nil: // a definition that was not generated
		return nil
	case reflect.TypeFor[None]():
		return json.RawMessage(`{"type":"null"}`)
	}
	return jsonschema.Of(t, param)
}
