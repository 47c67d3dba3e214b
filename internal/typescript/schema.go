package typescript

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// schema is the part of a JSON Schema that determines a TypeScript type.
type schema struct {
	Ref         string             `json:"$ref"`
	Type        kinds              `json:"type"`
	Description string             `json:"description"`
	Enum        []string           `json:"enum"`
	AnyOf       []*schema          `json:"anyOf"`
	Items       *schema            `json:"items"`
	MinItems    int                `json:"minItems"`
	MaxItems    int                `json:"maxItems"`
	Properties  map[string]*schema `json:"properties"`
	Required    []string           `json:"required"`
	Additional  json.RawMessage    `json:"additionalProperties"`
}

// kinds contains the JSON types that a schema allows.
type kinds []string

// UnmarshalJSON decodes a name or a list of names.
func (k *kinds) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		*k = kinds{""}
		return json.Unmarshal(b, &(*k)[0])
	}
	return json.Unmarshal(b, (*[]string)(k))
}

// writer writes TypeScript types. named returns the name of the type to which a reference refers.
type writer struct {
	named func(ref string) string
	// integer is the TypeScript type for integers.
	integer string
}

// longTuple is the maximum length of an array that is written as a tuple.
const longTuple = 8

// typeOf returns the TypeScript type that a schema describes. Comments of fields are on separate
// lines with the given indentation.
func (w *writer) typeOf(s *schema, indent string) string {
	switch {
	case s == nil:
		return "unknown"
	case s.Ref != "":
		return w.named(s.Ref)
	case len(s.Enum) > 0:
		return alternatives(quoted(s.Enum))
	case len(s.AnyOf) > 0:
		var all []string
		for _, one := range s.AnyOf {
			all = append(all, w.typeOf(one, indent))
		}
		return alternatives(all)
	case len(s.Type) == 0:
		return "unknown"
	}
	var all []string
	for _, kind := range s.Type {
		all = append(all, w.ofKind(s, kind, indent))
	}
	return alternatives(all)
}

func (w *writer) ofKind(s *schema, kind, indent string) string {
	switch kind {
	case "string":
		return "string"
	case "boolean":
		return "boolean"
	case "null":
		return "null"
	case "number":
		return "number"
	case "integer":
		return w.integer
	case "array":
		item := w.typeOf(s.Items, indent)
		if n := s.MinItems; n > 0 && n == s.MaxItems && n <= longTuple {
			return "[" + strings.Join(slices.Repeat([]string{item}, n), ", ") + "]"
		}
		if strings.ContainsAny(item, " |") && !strings.HasPrefix(item, "{") {
			item = "(" + item + ")"
		}
		return item + "[]"
	case "object":
		return w.object(s, indent)
	}
	return "unknown"
}

func (w *writer) object(s *schema, indent string) string {
	if len(s.Properties) == 0 {
		var values *schema
		if len(s.Additional) > 0 && s.Additional[0] == '{' && json.Unmarshal(s.Additional, &values) == nil {
			return "Record<string, " + w.typeOf(values, indent) + ">"
		}
		return "Record<string, unknown>"
	}
	return "{\n" + w.fields(s, indent+"  ") + indent + "}"
}

func (w *writer) fields(s *schema, indent string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field := s.Properties[name]
		if field != nil && field.Description != "" {
			fmt.Fprintf(&b, "%s/** %s */\n", indent, comment(field.Description))
		}
		mark := "?"
		if slices.Contains(s.Required, name) {
			mark = ""
		}
		fmt.Fprintf(&b, "%s%s%s: %s;\n", indent, property(name), mark, w.typeOf(field, indent))
	}
	return b.String()
}

// declare returns the TypeScript declaration of a type.
func (w *writer) declare(name string, s *schema) string {
	if len(s.Type) == 1 && s.Type[0] == "object" && len(s.Properties) > 0 {
		return "export interface " + name + " {\n" + w.fields(s, "  ") + "}\n"
	}
	return "export type " + name + " = " + w.typeOf(s, "") + ";\n"
}

func alternatives(all []string) string {
	var once []string
	for _, one := range all {
		if one == "unknown" {
			return one
		}
		if !slices.Contains(once, one) {
			once = append(once, one)
		}
	}
	return strings.Join(once, " | ")
}

func quoted(all []string) []string {
	text := make([]string, len(all))
	for i, one := range all {
		text[i] = literal(one)
	}
	return text
}

// literal returns a TypeScript string literal. Its syntax is the same as in JSON.
func literal(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return strconv.Quote(s)
	}
	return string(b)
}

var identifier = regexp.MustCompile(`^[A-Za-z_$][A-Za-z0-9_$]*$`)

// property returns a field name, quoted if necessary.
func property(name string) string {
	if identifier.MatchString(name) {
		return name
	}
	return literal(name)
}

// comment returns a text in which the end marker of comments is harmless.
func comment(text string) string { return strings.ReplaceAll(text, "*/", "* /") }
