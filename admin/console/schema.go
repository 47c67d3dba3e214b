package console

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// inputPrefix is the prefix of the names of input fields in a form. It is followed by a JSON
// pointer.
const inputPrefix = "in:"

// Limits of a form. Parts of an input that are deeper or larger are entered as JSON.
const (
	formDepth  = 3
	formFields = 60
)

// schema contains the parts of a JSON Schema that forms support. Package internal/jsonschema
// generates such schemas.
type schema struct {
	Ref        string             `json:"$ref"`
	Defs       map[string]*schema `json:"$defs"`
	Type       kinds              `json:"type"`
	Format     string             `json:"format"`
	Properties properties         `json:"properties"`
	Required   []string           `json:"required"`
	AnyOf      []*schema          `json:"anyOf"`
	Enum       []any              `json:"enum"`

	Title       string `json:"title"`
	Description string `json:"description"`
}

// properties contains the properties of an object in the order of the schema.
type properties struct {
	names []string
	all   map[string]*schema
}

// UnmarshalJSON parses a JSON object and keeps the order of its members.
func (p *properties) UnmarshalJSON(b []byte) error {
	if err := json.Unmarshal(b, &p.all); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if _, err := d.Token(); err != nil { // reads the opening brace
		return err
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		if text, ok := name.(string); ok && !seen[text] {
			seen[text] = true
			p.names = append(p.names, text)
		}
		if err := d.Decode(new(json.RawMessage)); err != nil {
			return err
		}
	}
	return nil
}

// kinds contains one or several types of a schema.
type kinds []string

// UnmarshalJSON parses a type name or a list of type names.
func (k *kinds) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*k = kinds{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(k))
}

// formOf returns the fields for an input that matches a schema. It returns nil if the input must be
// entered as JSON.
func formOf(text json.RawMessage) []field {
	var root schema
	if len(text) == 0 || json.Unmarshal(text, &root) != nil {
		return nil
	}
	f := &former{defs: root.Defs}
	f.walk(&root, "", "", true, 0, nil)
	if len(f.fields) == 0 || f.fields[0].Name == inputPrefix { // the input is not an object
		return nil
	}
	return f.fields
}

// former converts a schema to fields.
type former struct {
	defs   map[string]*schema
	fields []field
}

// walk adds the fields for the schema at a pointer. seen contains the definitions on the path. A
// recursive definition is entered as JSON.
func (f *former) walk(s *schema, at, label string, required bool, depth int, seen []string) {
	for s != nil && (s.Ref != "" || len(s.AnyOf) > 0) {
		if len(s.AnyOf) > 0 { // the type is nullable
			s, required = s.AnyOf[0], false
			continue
		}
		name := strings.TrimPrefix(s.Ref, "#/$defs/")
		if slices.Contains(seen, name) {
			s = nil
			break
		}
		s, seen = f.defs[name], append(slices.Clone(seen), name)
	}
	if s == nil {
		s = &schema{}
	}
	if len(s.Type) == 1 && s.Type[0] == "object" && len(s.Properties.all) > 0 && depth < formDepth && len(f.fields)+len(s.Properties.all) <= formFields {
		for _, name := range s.Properties.names {
			below := name
			if one := s.Properties.all[name]; one != nil && one.Title != "" {
				below = cut(80, one.Title)
			}
			switch {
			case label != "":
				below = label + " › " + below
			case depth == 0 && len(s.Properties.all) == 1 && below == name: // the label of the only parameter is redundant as a prefix
				below = ""
			}
			f.walk(s.Properties.all[name], at+"/"+pointerNames.Replace(name), below, required && slices.Contains(s.Required, name), depth+1, seen)
		}
		return
	}
	if label == "" {
		label = pointerParts.Replace(at[strings.LastIndex(at, "/")+1:])
	}
	one := field{Name: inputPrefix + at, Label: label, Required: required, Marked: required, Kind: "json", Hint: "JSON"}
	if len(s.Type) == 1 {
		switch s.Type[0] {
		case "string":
			one.Kind, one.Hint, one.Required = "text", s.Format, false // an empty text is valid, so the field is not required
			if s.Format == "date-time" {
				one.Hint, one.Required = "as 2026-11-24T08:00:00Z", required
			}
		case "integer":
			one.Kind, one.Hint = "number", "a whole number"
		case "number":
			one.Kind, one.Hint = "number", ""
		case "boolean":
			one.Kind, one.Hint, one.Options = "select", "", []string{"", "true", "false"} // no value is preselected
		}
	}
	if text := cut(300, s.Description); text != "" {
		one.Hint = text
	}
	if one.Optional = !required; one.Optional && one.Kind != "text" && one.Hint == "" {
		one.Hint = "may be left out"
	}
	f.fields = append(f.fields, one)
}

// pointerNames escapes names in JSON pointers (RFC 6901). pointerParts is the inverse of
// pointerNames.
var (
	pointerNames = strings.NewReplacer("~", "~0", "/", "~1")
	pointerParts = strings.NewReplacer("~1", "/", "~0", "~")
)

// typedInput returns the input in the fields as JSON. If a numeric field contains a text that is
// not a number, the input contains the text, so that the validation of the input reports it.
// Invalid JSON is returned as faults.
func typedInput(fields []field) (admin.Payload, []admin.Fault) {
	root := map[string]any{}
	var faults []admin.Fault
	for i := range fields {
		f := &fields[i]
		at := strings.TrimPrefix(f.Name, inputPrefix)
		text := f.Value
		if f.Kind != "text" {
			text = strings.TrimSpace(text)
		}
		if text == "" && (f.Kind != "text" || f.Optional) {
			continue
		}
		var value any = text
		switch {
		case f.Kind == "json" && !json.Valid([]byte(text)):
			faults = append(faults, admin.Fault{Pointer: at, Problem: "is not JSON"})
			continue
		case f.Kind == "json", f.Kind == "select", f.Kind == "number" && isNumber(text):
			value = json.RawMessage(text)
		}
		put(root, strings.Split(strings.TrimPrefix(at, "/"), "/"), value)
	}
	b, err := json.Marshal(root)
	if err != nil {
		return nil, []admin.Fault{{Problem: err.Error()}}
	}
	return b, faults
}

func isNumber(s string) bool {
	var n json.Number
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	return json.Valid([]byte(s)) && d.Decode(&n) == nil && !strings.HasPrefix(s, `"`)
}

// put sets the value at a JSON pointer.
func put(in map[string]any, parts []string, value any) {
	name := pointerParts.Replace(parts[0])
	if len(parts) == 1 {
		in[name] = value
		return
	}
	below, ok := in[name].(map[string]any)
	if !ok {
		below = map[string]any{}
		in[name] = below
	}
	put(below, parts[1:], value)
}

// fillIn sets the fields from an input. It reports whether the fields represent the whole input.
func fillIn(fields []field, input []byte) bool {
	var root any
	d := json.NewDecoder(bytes.NewReader(input))
	d.UseNumber()
	if d.Decode(&root) != nil {
		return len(input) == 0
	}
	for i := range fields {
		f := &fields[i]
		value, ok := dig(root, strings.Split(strings.TrimPrefix(strings.TrimPrefix(f.Name, inputPrefix), "/"), "/"))
		if !ok || value == nil {
			continue
		}
		if text, isText := value.(string); isText && f.Kind != "json" {
			f.Value = text
			continue
		}
		if b, err := json.MarshalIndent(value, "", "  "); err == nil {
			f.Value = string(b)
		}
	}
	got, _ := typedInput(fields)
	return equalJSON(got, input)
}

// dig returns the value at a JSON pointer. It returns false if there is none.
func dig(v any, parts []string) (any, bool) {
	for _, part := range parts {
		in, ok := v.(map[string]any)
		if !ok {
			return nil, false
		}
		if v, ok = in[pointerParts.Replace(part)]; !ok {
			return nil, false
		}
	}
	return v, true
}

// equalJSON reports whether two texts are equal as JSON. It ignores null values.
func equalJSON(a, b []byte) bool {
	one, two := withoutNulls(a), withoutNulls(b)
	return one != "" && one == two
}

func withoutNulls(b []byte) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return ""
	}
	var drop func(v any)
	drop = func(v any) {
		if in, ok := v.(map[string]any); ok {
			maps.DeleteFunc(in, func(_ string, v any) bool { return v == nil })
			for _, v := range in {
				drop(v)
			}
		}
	}
	drop(v)
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}

// blame assigns the faults of an input to its fields, and returns the other faults.
func blame(fields []field, faults []admin.Fault) (others []admin.Fault) {
	for _, fault := range faults {
		best := -1
		for i := range fields {
			at := strings.TrimPrefix(fields[i].Name, inputPrefix)
			if (fault.Pointer == at || strings.HasPrefix(fault.Pointer, at+"/")) && (best < 0 || len(fields[i].Name) > len(fields[best].Name)) {
				best = i
			}
		}
		if best < 0 {
			others = append(others, fault)
			continue
		}
		said := fault.Problem
		if below := strings.TrimPrefix(fault.Pointer, strings.TrimPrefix(fields[best].Name, inputPrefix)); below != "" {
			said = below + " " + said
		}
		if fields[best].Problem != "" {
			said = fields[best].Problem + "; " + said
		}
		fields[best].Problem = said
	}
	return others
}
