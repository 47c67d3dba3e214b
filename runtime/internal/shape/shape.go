// Package shape describes the JSON that can be decoded into a Go type, in a form that can be
// stored. With a shape, a process without the type can reject values that do not fit. A shape
// accepts every value that encoding/json decodes into the type without an error. For a type with
// its own JSON decoding method it accepts every value.
package shape

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Shape describes a type. At most one of Plain, List, Map and Object is set. Fields belongs to
// Object. If none is set, the shape accepts any value.
type Shape struct {
	// Plain is "bool", "string", "float64", "int8", "uint64" and so on.
	Plain  string            `json:"is,omitempty"`
	List   *Shape            `json:"list,omitempty"`
	Map    *Shape            `json:"map,omitempty"`
	Fields map[string]*Shape `json:"fields,omitempty"` // fields of the object; a value may have other fields, and may lack some of these
	Object bool              `json:"object,omitempty"` // whether the type is a struct, which may have no fields
}

// maxNodes bounds the number of described parts of a type.
const maxNodes = 200

// builder describes one type.
type builder struct{ left int }

// maxSize bounds a stored shape, in bytes. The deeper parts of a larger shape accept any value.
const maxSize = 1 << 10

var cache sync.Map // maps reflect.Type to []byte

// Of returns the stored shape of a type. It returns nil if the shape accepts any value.
func Of(t reflect.Type) []byte {
	if data, ok := cache.Load(t); ok {
		return data.([]byte)
	}
	data := encode(t)
	cache.Store(t, data)
	return data
}

// encode describes as many levels of a type as the bounds permit.
func encode(t reflect.Type) []byte {
	for depth := 6; depth > 0; depth-- {
		b := builder{left: maxNodes}
		s := b.of(t, depth)
		if b.left < 0 {
			continue
		}
		if reflect.DeepEqual(s, &Shape{}) {
			return nil
		}
		if data, err := json.Marshal(s); err == nil && len(data) <= maxSize {
			return data
		}
	}
	return nil
}

var (
	jsonReader = reflect.TypeFor[json.Unmarshaler]()
	textReader = reflect.TypeFor[encoding.TextUnmarshaler]()
	number     = reflect.TypeFor[json.Number]()
)

func (b *builder) of(t reflect.Type, depth int) *Shape {
	b.left--
	for t.Kind() == reflect.Pointer && !reads(t) {
		t = t.Elem()
	}
	if depth <= 0 || b.left < 0 || reads(t) || t == number {
		return &Shape{}
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return &Shape{Plain: t.Kind().String()}
	case reflect.Int:
		return &Shape{Plain: "int64"} // 64 bits, as on most machines
	case reflect.Uint:
		return &Shape{Plain: "uint64"}
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 && !reads(t.Elem()) {
			return &Shape{} // decoded from a base64 string or from a list
		}
		return &Shape{List: b.of(t.Elem(), depth-1)}
	case reflect.Map:
		return &Shape{Map: b.of(t.Elem(), depth-1)}
	case reflect.Struct:
		s := &Shape{Object: true, Fields: map[string]*Shape{}}
		b.addFields(s, t, depth)
		return s
	}
	return &Shape{}
}

// reads reports whether a type has its own method to decode JSON.
func reads(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t.Implements(jsonReader) || p.Implements(jsonReader) || t.Implements(textReader) || p.Implements(textReader)
}

func (b *builder) addFields(s *Shape, t reflect.Type, depth int) {
	for f := range t.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == "-" && options == "" {
			continue
		}
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if f.Anonymous && tag == "" && inner.Kind() == reflect.Struct && !reads(f.Type) {
			if depth > 0 {
				b.addFields(s, inner, depth-1)
			}
			continue
		}
		if !f.IsExported() {
			continue
		}
		name := tag
		if name == "" {
			name = f.Name
		}
		if _, twice := s.Fields[name]; twice || slices.Contains(strings.Split(options, ","), "string") {
			s.Fields[name] = &Shape{} // encoding/json has special rules for these fields
			continue
		}
		s.Fields[name] = b.of(f.Type, depth-1)
	}
}

// Check returns an error that describes the part of a JSON value that does not fit a stored shape.
// It returns nil if the value fits or if the shape cannot be decoded.
func Check(shape, value []byte) error {
	var s Shape
	if len(shape) == 0 || json.Unmarshal(shape, &s) != nil {
		return nil //nolint:nilerr // a shape that cannot be read refuses nothing
	}
	d := json.NewDecoder(strings.NewReader(string(value)))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return err
	}
	return s.check("", v)
}

func (s *Shape) check(path string, v any) error {
	if v == nil || s == nil {
		return nil // null can be decoded into any type
	}
	wrong := func(want string) error {
		at := ""
		if path != "" {
			at = " at " + path
		}
		return fmt.Errorf("there is %s%s, want %s", kind(v), at, want)
	}
	switch {
	case s.Plain != "":
		if !s.plain(v) {
			return wrong(s.Plain)
		}
	case s.List != nil:
		list, ok := v.([]any)
		if !ok {
			return wrong("a list")
		}
		for i, e := range list {
			if err := s.List.check(fmt.Sprintf("%s[%d]", path, i), e); err != nil {
				return err
			}
		}
	case s.Map != nil || s.Object:
		object, ok := v.(map[string]any)
		if !ok {
			return wrong("an object")
		}
		for name, e := range object {
			if err := s.member(name).check(strings.TrimPrefix(path+"."+name, "."), e); err != nil {
				return err
			}
		}
	}
	return nil
}

// member returns the shape of a field. It returns nil if the field accepts any value.
func (s *Shape) member(name string) *Shape {
	if s.Map != nil {
		return s.Map
	}
	if f, ok := s.Fields[name]; ok {
		return f
	}
	for other, f := range s.Fields {
		if strings.EqualFold(other, name) {
			return f
		}
	}
	return nil
}

// parsers parse the plain kinds of numbers, whose names end with the number of bits.
var parsers = map[string]func(text string, bits int) error{
	"int":   func(text string, bits int) error { _, err := strconv.ParseInt(text, 10, bits); return err },
	"uint":  func(text string, bits int) error { _, err := strconv.ParseUint(text, 10, bits); return err },
	"float": func(text string, bits int) error { _, err := strconv.ParseFloat(text, bits); return err },
}

// plain reports whether a value has the plain kind of the shape. If this release does not define
// the kind, any value has it.
func (s *Shape) plain(v any) (ok bool) {
	switch s.Plain {
	case "bool":
		_, ok = v.(bool)
		return ok
	case "string":
		_, ok = v.(string)
		return ok
	}
	name := strings.TrimRight(s.Plain, "0123456789")
	parse, bits := parsers[name], s.Plain[len(name):]
	n, err := strconv.Atoi(bits)
	if parse == nil || err != nil {
		return true
	}
	number, ok := v.(json.Number)
	return ok && parse(number.String(), n) == nil
}

func kind(v any) string {
	switch v := v.(type) {
	case bool:
		return "a boolean"
	case json.Number:
		return "the number " + v.String()
	case string:
		return "a string"
	case []any:
		return "a list"
	}
	return "an object"
}
