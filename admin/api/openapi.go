package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// OpenAPI returns the OpenAPI 3.1 document of the API as JSON. It equals the file openapi.json in
// this directory.
func OpenAPI() []byte { return document() }

// object is a JSON object. It is encoded with sorted names.
type object = map[string]any

var document = sync.OnceValue(func() []byte {
	s := &schemas{all: object{}}
	paths := object{}
	for _, r := range slices.Concat(route.All, route.Open) {
		at := Prefix + r.Path
		if paths[at] == nil {
			paths[at] = object{}
		}
		paths[at].(object)[strings.ToLower(r.Method)] = s.operation(r)
	}
	paths[Prefix+"openapi.json"] = object{"get": object{
		"operationId": "getDocument", "summary": "This document.", "responses": object{"200": object{
			"description": "An OpenAPI document.", "content": object{"application/json": object{"schema": object{"type": "object"}}},
		}},
	}}
	paths["/hooks/{token}"] = object{"post": hookOperation()}
	problem := s.of(reflect.TypeFor[admin.Problem]())
	s.of(reflect.TypeFor[admin.Lag]())
	doc := object{
		"openapi": "3.1.0",
		"info": object{
			"title": "flowgen", "version": "1", "description": "Find, read, follow and control the runs of a store. A run is named by its id, or as id:WORKFLOWID " +
				"by its workflow id: then it is the active run of that id, or the newest one.",
		},
		"paths": paths,
		"components": object{
			"schemas": s.all,
			"responses": object{"Problem": object{
				"description": "A problem by RFC 9457.", "content": object{"application/problem+json": object{"schema": problem}},
			}},
			"securitySchemes": object{"token": object{"type": "http", "scheme": "bearer"}},
		},
		"security": []any{object{"token": []any{}}, object{}}, // the empty requirement permits requests from the same machine without a token
	}
	b, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		panic(err)
	}
	return append(b, '\n')
})

// Schemas returns the JSON Schemas of the given structs and of the structs that they contain, by
// name. References have the form #/components/schemas/NAME, as in the document. The name of an
// unexported type is capitalized.
func Schemas(types ...reflect.Type) map[string]any {
	s := &schemas{all: object{}}
	for _, t := range types {
		s.of(t)
	}
	return s.all
}

// schemas contains the schemas of structs by name.
type schemas struct{ all object }

func (s *schemas) operation(r *route.Route) object {
	params := []any{}
	for _, name := range r.Names() {
		schema := object{"type": "string"}
		if name == "action" && r.Verbs != nil {
			schema["enum"] = r.Verbs()
		}
		params = append(params, object{"in": "path", "name": name, "required": true, "schema": schema})
	}
	for _, p := range r.Query {
		params = append(params, object{"in": "query", "name": p.Name, "description": p.About, "schema": query(p)})
	}
	header := func(name, about string) {
		params = append(params, object{"in": "header", "name": name, "description": about, "schema": object{"type": "string"}})
	}
	if r.Keyed {
		header("Idempotency-Key", "requests with the same key are one")
	}
	if r.Waits {
		header("Prefer", "wait=SECONDS, at most 60, as RFC 7240 has it")
	}
	if r.Stream {
		header("Last-Event-ID", "the id of the last message received")
	}
	op := object{"operationId": r.Name, "summary": r.About, "responses": s.responses(r)}
	if op["description"] = "Needs the role " + string(r.Role) + "."; r.Role == "" {
		op["description"], op["security"] = "Needs no role.", []any{}
	}
	if len(params) > 0 {
		op["parameters"] = params
	}
	if r.In != nil {
		in := s.of(r.In)
		s.all[r.In.Name()].(object)["additionalProperties"] = false
		_, needs := s.all[r.In.Name()].(object)["required"]
		op["requestBody"] = object{"required": needs, "content": object{"application/json": object{"schema": in}}}
	}
	return op
}

// hookOperation describes the public endpoint of hooks. Package admin/hooks serves it at the root,
// and not below Prefix.
func hookOperation() object {
	whatever := object{"*/*": object{}}
	responses := object{
		"202":     object{"description": "The payload is durable.", "content": object{"application/json": object{"schema": object{"type": "object", "required": []string{"accepted"}, "properties": object{"accepted": object{"type": "boolean"}}}}}},
		"default": object{"description": "The answer of the workflow, if the hook was opened to answer and the answer arrives in time.", "content": whatever},
	}
	for _, status := range []int{
		http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge,
		http.StatusUnprocessableEntity, http.StatusTooManyRequests, http.StatusServiceUnavailable,
	} {
		responses[strconv.Itoa(status)] = object{"$ref": "#/components/responses/Problem"}
	}
	return object{
		"operationId": "callHook", "summary": "Deliver a payload to an open hook: JSON of its type, or any request for a hook that takes requests.",
		"description": "Needs no role: the token is the only credential. It is served at the root of a server, by flowctl serve and where package admin/hooks is mounted.", "security": []any{},
		"parameters": []any{
			object{"in": "path", "name": "token", "required": true, "schema": object{"type": "string"}},
			object{"in": "header", "name": "Idempotency-Key", "description": "requests with the same key are one", "schema": object{"type": "string"}},
		},
		"requestBody": object{"required": false, "content": whatever}, "responses": responses,
	}
}

func (s *schemas) responses(r *route.Route) object {
	about := "Success."
	content := object{}
	switch {
	case r.Out != nil:
		content["application/json"] = object{"schema": s.of(r.Out)}
	case r.Kind != "":
		content[r.Kind] = object{} // the media type is not JSON and has no schema
	}
	if r.Stream {
		content = object{"text/event-stream": object{"schema": object{"type": "string"}}}
		about = "Server-sent events: event (its data is of the schema " + r.Out.Name() + ", its id the number), lag if it cannot go on after Last-Event-ID (its data is a Lag: it goes on with next), " +
			"end when there are no more, problem (its data is a Problem). A comment comes when nothing else has for a while."
	}
	if r == route.Live {
		about = "Server-sent events: event and lag of a run, list with what a list is now, over when nothing more comes of a run. The data of each is a News, its id has a place for each topic, " +
			"in order. A comment comes when nothing else has for a while."
	}
	all := object{strconv.Itoa(r.Status): object{"description": about, "content": content}}
	if len(content) == 0 {
		all[strconv.Itoa(r.Status)] = object{"description": about}
	}
	if r.Other != 0 {
		all[strconv.Itoa(r.Other)] = object{"description": "It was there before.", "content": content}
	}
	for _, status := range slices.Concat(route.Always, r.Problems) {
		all[strconv.Itoa(status)] = object{"$ref": "#/components/responses/Problem"}
	}
	return all
}

func query(p route.Param) object {
	schema := object{"type": p.Type}
	if p.Form != "" {
		schema["format"] = p.Form
	}
	if p.Enum != nil {
		schema["enum"] = p.Enum()
	}
	if p.Many {
		return object{"type": "array", "items": schema}
	}
	return schema
}

// enums contains the values of fields with a fixed set of values.
var enums = map[string]func() []string{
	"Start.policy": admin.Policies, "Start.finished": admin.FinishedPolicies, "Run.status": admin.Statuses, "Acted.verb": admin.Actions, "Bulk.status": admin.BulkStatuses, "Entity.kind": admin.EntityKinds,
	"PoolActed.verb": admin.PoolActions,
}

// of returns the schema of a type. For a struct, it returns a reference.
func (s *schemas) of(t reflect.Type) object {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage]():
		return object{"description": "Any JSON, as it is stored."}
	}
	switch t.Kind() {
	case reflect.String:
		return object{"type": "string"}
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return object{"type": "integer"}
	case reflect.Uint64:
		return object{"type": "integer", "minimum": 0}
	case reflect.Float64:
		return object{"type": "number"}
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Struct:
		s.define(t)
		return object{"$ref": "#/components/schemas/" + nameOf(t)}
	}
	panic(fmt.Sprintf("api: no schema for %v", t))
}

// nameOf returns the name of the schema of a struct.
func nameOf(t reflect.Type) string { return strings.ToUpper(t.Name()[:1]) + t.Name()[1:] }

// define adds the schema of a struct to all.
func (s *schemas) define(t reflect.Type) {
	if s.all[nameOf(t)] != nil {
		return
	}
	properties, required := object{}, []string{}
	schema := object{"type": "object", "properties": properties}
	s.all[nameOf(t)] = schema // added before the schemas of the fields, because these may refer to it
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" { // embedded, or omitted in JSON
			continue
		}
		field := s.of(f.Type)
		if enum := enums[t.Name()+"."+name]; enum != nil {
			field["enum"] = enum()
		}
		properties[name] = field
		if !strings.Contains(options, "omit") || t == reflect.TypeFor[admin.Message]() && name == "payload" { // null is a valid payload, so the field is not required
			required = append(required, name)
		}
	}
	if len(required) > 0 {
		schema["required"] = required
	}
}
