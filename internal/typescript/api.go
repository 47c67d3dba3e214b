package typescript

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// operation is a decoded operation of an OpenAPI document.
type operation struct {
	ID         string `json:"operationId"`
	Summary    string `json:"summary"`
	Parameters []struct {
		Name        string  `json:"name"`
		In          string  `json:"in"`
		Description string  `json:"description"`
		Schema      *schema `json:"schema"`
	} `json:"parameters"`

	method, path string
}

// API returns a TypeScript module for an OpenAPI document. The module contains the types, the query
// parameters, and the path of each operation.
func API(document []byte) ([]byte, error) {
	var doc struct {
		Paths      map[string]map[string]*operation `json:"paths"`
		Components struct {
			Schemas map[string]*schema `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(document, &doc); err != nil {
		return nil, fmt.Errorf("read the document of the API: %w", err)
	}
	w := &writer{integer: "number", named: func(ref string) string { return strings.TrimPrefix(ref, "#/components/schemas/") }}
	var b strings.Builder
	b.WriteString("// Made from admin/api/openapi.json by go test ./admin/api -update. Do not edit.\n")
	for _, name := range slices.Sorted(maps.Keys(doc.Components.Schemas)) {
		b.WriteString("\n" + w.declare(name, doc.Components.Schemas[name]))
	}
	var all []*operation
	for path, methods := range doc.Paths {
		for method, op := range methods {
			op.method, op.path = strings.ToUpper(method), path
			all = append(all, op)
		}
	}
	slices.SortFunc(all, func(a, b *operation) int { return cmp.Compare(a.ID, b.ID) })
	for _, op := range all {
		w.query(&b, op)
	}
	b.WriteString("\n/** Method and path of each operation, with {names} for what is put in. */\nexport const routes = {\n")
	for _, op := range all {
		fmt.Fprintf(&b, "  /** %s */\n  %s: [%s, %s],\n", comment(op.Summary), property(op.ID), literal(op.method), literal(op.path))
	}
	b.WriteString("} as const;\n")
	return []byte(b.String()), nil
}

// query writes the interface of the query parameters of an operation.
func (w *writer) query(b *strings.Builder, op *operation) {
	q := &schema{Type: kinds{"object"}, Properties: map[string]*schema{}}
	for _, p := range op.Parameters {
		if p.In == "query" && p.Schema != nil {
			field := *p.Schema
			field.Description = p.Description
			q.Properties[p.Name] = &field
		}
	}
	if len(q.Properties) > 0 {
		b.WriteString("\n" + w.declare(strings.ToUpper(op.ID[:1])+op.ID[1:]+"Query", q))
	}
}
