package jsonschema

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"
)

// Fault is a part of a value that violates the schema.
type Fault struct {
	Pointer string // a JSON pointer (RFC 6901); empty for the whole value
	Problem string // the problem and the expected value
}

// maxFaults is the maximum number of faults that Check reports.
const maxFaults = 20

// Check returns the first 20 faults of a JSON value. It returns nil if the value conforms to the
// schema or if the schema cannot be read. Field names are compared without regard to case, as in
// encoding/json.
func Check(schema, value []byte) []Fault {
	root, err := decode(schema)
	if err != nil {
		return nil
	}
	s, ok := root.(object)
	if !ok {
		return nil
	}
	v, err := decode(value)
	if err != nil {
		return []Fault{{Problem: "is not JSON: " + err.Error()}}
	}
	c := &checker{}
	c.defs, _ = s["$defs"].(object)
	c.check("", s, v, 0)
	return c.faults
}

func decode(data []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}

type checker struct {
	defs   object
	faults []Fault
}

func (c *checker) wrongf(at, format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, Fault{at, fmt.Sprintf(format, args...)})
	}
}

// maxDepth limits the nesting of values that Check examines, because schemas may be recursive.
const maxDepth = 1000

func (c *checker) check(at string, s object, v any, depth int) {
	if depth > maxDepth || len(c.faults) >= maxFaults {
		return
	}
	if ref, ok := s["$ref"].(string); ok {
		to, _ := c.defs[strings.TrimPrefix(ref, "#/$defs/")].(object)
		c.check(at, to, v, depth+1)
		return
	}
	if some, ok := s["anyOf"].([]any); ok {
		c.anyOf(at, some, v, depth)
		return
	}
	if want := types(s); len(want) > 0 && !slices.ContainsFunc(want, func(t string) bool { return is(t, v) }) {
		c.wrongf(at, "is %s, want %s", kind(v), strings.Join(want, " or "))
		return
	}
	switch v := v.(type) {
	case json.Number:
		c.number(at, s, v)
	case string:
		c.text(at, s, v)
	case []any:
		c.list(at, s, v, depth)
	case object:
		c.object(at, s, v, depth)
	}
}

// anyOf reports the faults of v for the first schema that is not null.
func (c *checker) anyOf(at string, some []any, v any, depth int) {
	var first []Fault
	for i, one := range some {
		s, _ := one.(object)
		other := &checker{defs: c.defs}
		if other.check(at, s, v, depth+1); len(other.faults) == 0 {
			return
		}
		if i == 0 {
			first = other.faults
		}
	}
	c.faults = append(c.faults, first...)
}

func types(s object) []string {
	switch t := s["type"].(type) {
	case string:
		return []string{t}
	case []any:
		var all []string
		for _, one := range t {
			name, _ := one.(string)
			all = append(all, name)
		}
		return all
	}
	return nil
}

// is reports whether v has the type t. An integer must have the form that Go accepts, without
// fraction and exponent.
func is(t string, v any) bool {
	if n, ok := v.(json.Number); ok && t == "integer" {
		return !strings.ContainsAny(n.String(), ".eE")
	}
	return kind(v) == t || !slices.Contains([]string{"null", "boolean", "number", "integer", "string", "array", "object"}, t)
}

func kind(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case json.Number:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "object"
}

func (c *checker) number(at string, s object, n json.Number) {
	v, ok := new(big.Float).SetString(n.String())
	if !ok {
		return
	}
	bound := func(name string) *big.Float {
		text, _ := s[name].(json.Number)
		limit, ok := new(big.Float).SetString(text.String())
		if !ok {
			return nil
		}
		return limit
	}
	if least := bound("minimum"); least != nil && v.Cmp(least) < 0 {
		c.wrongf(at, "is %s, want at least %v", n, s["minimum"])
	}
	if most := bound("maximum"); most != nil && v.Cmp(most) > 0 {
		c.wrongf(at, "is %s, want at most %v", n, s["maximum"])
	}
}

func (c *checker) text(at string, s object, text string) {
	if s["format"] == "date-time" {
		if _, err := time.Parse(time.RFC3339, text); err != nil {
			c.wrongf(at, "is %.60q, want a time by RFC 3339, as 2026-01-02T15:04:05Z", text)
		}
	}
	if s["contentEncoding"] == "base64" {
		if _, err := base64.StdEncoding.DecodeString(text); err != nil {
			c.wrongf(at, "is %.60q, want bytes in base64", text)
		}
	}
}

func (c *checker) list(at string, s object, v []any, depth int) {
	length := func(name string) (n int64, ok bool) {
		text, _ := s[name].(json.Number)
		n, err := text.Int64()
		return n, err == nil
	}
	if least, ok := length("minItems"); ok && int64(len(v)) < least {
		c.wrongf(at, "has %d elements, want at least %d", len(v), least)
	}
	if most, ok := length("maxItems"); ok && int64(len(v)) > most {
		c.wrongf(at, "has %d elements, want at most %d", len(v), most)
	}
	items, ok := s["items"].(object)
	for i := range v {
		if !ok {
			break
		}
		c.check(fmt.Sprint(at, "/", i), items, v[i], depth+1)
	}
}

// pointers escapes a field name for a JSON pointer.
var pointers = strings.NewReplacer("~", "~0", "/", "~1")

func (c *checker) object(at string, s object, v object, depth int) {
	properties, _ := s["properties"].(object)
	for _, name := range sorted(v) {
		below := at + "/" + pointers.Replace(name)
		if one, ok := named(properties, name); ok {
			property, _ := one.(object)
			c.check(below, property, v[name], depth+1)
			continue
		}
		switch more := s["additionalProperties"].(type) {
		case bool:
			if !more {
				c.wrongf(below, "is not known, want one of %s", strings.Join(sorted(properties), ", "))
			}
		case object:
			c.check(below, more, v[name], depth+1)
		}
	}
	required, _ := s["required"].([]any)
	for _, one := range required {
		name, _ := one.(string)
		if _, ok := named(v, name); !ok {
			c.wrongf(at+"/"+pointers.Replace(name), "is missing")
		}
	}
}

// named returns the field with the given name, or a field whose name differs only in case.
func named(all object, name string) (any, bool) {
	if one, ok := all[name]; ok {
		return one, true
	}
	for _, other := range sorted(all) {
		if strings.EqualFold(other, name) {
			return all[other], true
		}
	}
	return nil, false
}

func sorted(all object) []string {
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
