// Package jsonschema describes the JSON that encoding/json decodes into a Go type as a JSON Schema
// (draft 2020-12), and reports violations of a schema as JSON pointers. It writes and supports the
// keywords type, properties, required, additionalProperties, items, minItems, maxItems, minimum,
// maximum, anyOf, format, contentEncoding, $ref and $defs. It ignores other keywords, which a newer
// release may write.
//
// The package exists because general libraries describe JSON rather than the input of
// encoding/json. It must handle recursive types, types with their own decoding methods, field names
// in different case, and 64-bit integers correctly.
package jsonschema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"
)

// MaxSize is the maximum size of a schema in bytes. [Of] returns no schema for a type whose schema
// is larger.
const MaxSize = 64 << 10

// object is a JSON object. It is encoded with sorted names.
type object = map[string]any

// Of returns the schema of the stored form of a value of type t under the parameter name param. If
// param is empty, the schema is for the value itself. A parameter is required unless its type has a
// nil value. Of returns nil if the schema is too large. All processes of the same build return the
// same schema for a type.
func Of(t reflect.Type, param string) json.RawMessage {
	b := &builder{names: map[reflect.Type]string{}, defs: object{}}
	var root object
	switch {
	case param != "":
		root = object{"type": "object", "properties": object{param: b.of(t)}, "additionalProperties": false}
		if !nils(t) {
			root["required"] = []string{param}
		}
	case t.Kind() == reflect.Struct && !reads(t):
		root = b.structure(t, true)
	default:
		root = b.of(t)
	}
	if len(b.defs) > 0 {
		root["$defs"] = b.defs
	}
	data, err := json.Marshal(root)
	if err != nil || len(data) > MaxSize || b.size > MaxSize {
		return nil
	}
	return data
}

// builder creates the schema of one type.
type builder struct {
	names map[reflect.Type]string // names of structs in $defs
	defs  object
	size  int // total length of names, used to stop the traversal of a type that is too large
}

var (
	jsonReader = reflect.TypeFor[json.Unmarshaler]()
	textReader = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// reads reports whether a type has its own decoding method.
func reads(t reflect.Type) bool { return has(t, jsonReader) || has(t, textReader) }

func has(t, method reflect.Type) bool {
	return t.Kind() != reflect.Interface && (t.Implements(method) || reflect.PointerTo(t).Implements(method))
}

// nils reports whether type t has a value that is encoded as null.
func nils(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return true
	}
	return false
}

func (b *builder) of(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[json.Number](), reflect.TypeFor[big.Int]():
		return object{"type": "number"}
	}
	switch {
	case t.Kind() == reflect.Pointer:
		return nullable(b.of(t.Elem()))
	case has(t, jsonReader):
		return object{}
	case has(t, textReader):
		return object{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Float32, reflect.Float64:
		return object{"type": "number"}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		most := int64(1)<<(t.Bits()-1) - 1
		return object{"type": "integer", "minimum": -most - 1, "maximum": most}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return object{"type": "integer", "minimum": 0, "maximum": ^uint64(0) >> (64 - t.Bits())}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 && !reads(t.Elem()) {
			return object{"type": []string{"string", "null"}, "contentEncoding": "base64"}
		}
		return object{"type": []string{"array", "null"}, "items": b.of(t.Elem())}
	case reflect.Array:
		return object{"type": "array", "items": b.of(t.Elem()), "minItems": t.Len(), "maxItems": t.Len()}
	case reflect.Map:
		return object{"type": []string{"object", "null"}, "additionalProperties": b.of(t.Elem())}
	case reflect.Struct:
		return b.reference(t)
	}
	return object{}
}

// nullable returns a schema that allows null in addition to s.
func nullable(s object) object {
	switch t := s["type"].(type) {
	case string:
		s["type"] = []string{t, "null"}
		return s
	case []string:
		return s
	}
	if len(s) == 0 {
		return s
	}
	return object{"anyOf": []object{s, {"type": "null"}}}
}

// reference returns a reference to the schema of a struct. The struct may be recursive.
func (b *builder) reference(t reflect.Type) object {
	name, known := b.names[t]
	if !known {
		name = b.name(t)
		b.names[t] = name
		b.defs[name] = object{} // The empty entry reserves the name.
		b.defs[name] = b.structure(t, false)
	}
	return object{"$ref": "#/$defs/" + name}
}

// name returns a unique name for a struct. It is derived from the type name without package and
// type arguments.
func (b *builder) name(t reflect.Type) string {
	short, _, _ := strings.Cut(t.Name(), "[")
	if short == "" {
		short = "struct"
	}
	name := short
	for n := 2; b.defs[name] != nil; n++ {
		name = fmt.Sprint(short, n)
	}
	return name
}

// structure returns the schema of a struct. If all is true, each field is required unless it may be
// nil or omitted.
func (b *builder) structure(t reflect.Type, all bool) object {
	properties, required := object{}, []string{}
	for _, f := range fields(t) {
		if b.size += len(f.name); b.size > MaxSize {
			break
		}
		s := object{}
		if !f.quoted { // For quoted values, encoding/json has special rules.
			s = b.of(f.t)
		}
		properties[f.name] = s
		if all && !f.omits && !nils(f.t) {
			required = append(required, f.name)
		}
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		slices.Sort(required)
		s["required"] = required
	}
	return s
}

// field is a field of a struct as encoding/json treats it.
type field struct {
	name   string
	t      reflect.Type
	tagged bool
	omits  bool // the encoder may omit the field
	quoted bool // the value is encoded in a string
	depth  int
}

// fields returns the fields of a struct and of its embedded structs by the rules of encoding/json.
// Of several fields with the same name, only the shallowest one is used. If several fields have
// this depth, the only tagged one is used. If there is no such field, all of them are omitted.
func fields(t reflect.Type) []field {
	var all []field
	collect(t, 0, map[reflect.Type]bool{}, &all)
	slices.SortStableFunc(all, func(a, b field) int {
		if a.name != b.name {
			return strings.Compare(a.name, b.name)
		}
		if a.depth != b.depth {
			return a.depth - b.depth
		}
		if a.tagged != b.tagged {
			return map[bool]int{true: -1, false: 1}[a.tagged]
		}
		return 0
	})
	var count []field
	for i := 0; i < len(all); {
		same := 1
		for i+same < len(all) && all[i+same].name == all[i].name {
			same++
		}
		if same == 1 || all[i+1].depth != all[i].depth || all[i+1].tagged != all[i].tagged {
			count = append(count, all[i])
		}
		i += same
	}
	return count
}

func collect(t reflect.Type, depth int, within map[reflect.Type]bool, all *[]field) {
	if within[t] {
		return
	}
	within[t] = true
	defer delete(within, t)
	for f := range t.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Tag.Get("json") == "-" {
			continue
		}
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if f.Anonymous && tag == "" && inner.Kind() == reflect.Struct {
			collect(inner, depth+1, within, all)
			continue
		}
		if !f.IsExported() {
			continue
		}
		one := field{name: f.Name, t: f.Type, depth: depth}
		if tag != "" {
			one.name, one.tagged = tag, true
		}
		for option := range strings.SplitSeq(options, ",") {
			one.omits = one.omits || option == "omitempty" || option == "omitzero"
			one.quoted = one.quoted || option == "string"
		}
		*all = append(*all, one)
	}
}
