package workflow

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/flowgen/flowgen/internal/jsonschema"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
)

// CatalogEntry describes a workflow as workers did: its queue, the JSON Schemas of its input and its result, and its nodes if it is a
// struct under //flow:dag. The schema of a workflow that takes none, or returns none, has the type null. An empty schema says nothing.
type CatalogEntry = store.CatalogEntry

// CatalogQuery selects entries of the catalogue.
type CatalogQuery = store.CatalogQuery

// Catalog returns what workers have said of their workflows when they started, by the names of these. Steps that use limits are among
// them, without schemas, under the names that runs have which execute them: see event.StepOfRun. Workers of earlier releases
// say nothing. [ErrNotSupported]: the store keeps no catalogue.
func (c *Client) Catalog(ctx context.Context, q CatalogQuery) ([]CatalogEntry, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("read catalogue: %w", err)
	}
	cataloger, ok := store.As[store.Cataloger](c.store)
	if !ok {
		return nil, fmt.Errorf("read catalogue: %w", ErrNotSupported)
	}
	return cataloger.Catalog(ctx, q)
}

// Catalog is part of [engine.Registry].
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

// limitsOf returns the names of the limits that are used, whatever the input: a directive names limits, and only the keys and weights of
// them go by the input. What cannot do without one says nothing.
func limitsOf(uses func(input any) []permits.Use) (names []string) {
	if uses == nil {
		return nil
	}
	defer func() {
		if recover() != nil { // code of the user's, such as a method of a nil pointer
			names = nil
		}
	}()
	for _, u := range uses(nil) {
		names = append(names, u.Limit)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// schemaOf returns the schema of what is stored for a type under the name of a parameter.
func schemaOf(t reflect.Type, param string) json.RawMessage {
	switch t {
	case nil: // a definition that was made by hand
		return nil
	case reflect.TypeFor[None]():
		return json.RawMessage(`{"type":"null"}`)
	}
	return jsonschema.Of(t, param)
}
