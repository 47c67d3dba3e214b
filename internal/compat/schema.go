package compat

import (
	"bytes"
	"encoding/json"
	"go/token"
	"maps"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/manifest"
)

// role is the way in which the runtime uses a stored value.
type role int

const (
	arguments role = iota // The value is compared with the arguments that the code passes.
	results               // The code reads the value.
	inputs                // The code reads the value by parameter names.
	messages              // The code reads the value unless it has been read before.
)

// differ compares the old and the new types of one subject.
type differ struct {
	c        *comparer
	subject  string
	at       token.Position
	old, now map[string]json.RawMessage // definitions of named types
	uncalled bool
	visited  map[string]bool
}

// schema is a decoded JSON Schema of a manifest.
type schema struct {
	Ref        string                     `json:"$ref"`
	Type       any                        `json:"type"`
	Properties map[string]json.RawMessage `json:"properties"`
	Required   []string                   `json:"required"`
	Items      json.RawMessage            `json:"items"`
	Values     json.RawMessage            `json:"additionalProperties"`
	AnyOf      []json.RawMessage          `json:"anyOf"`
	Encoding   string                     `json:"contentEncoding"`
	Format     string                     `json:"format"`
	Custom     string                     `json:"x-custom"`
	Quoted     json.RawMessage            `json:"x-quoted"`
}

func (d *differ) reportf(class Class, row, format string, args ...any) {
	d.c.reportf(d.at, ifCalled(class, !d.uncalled), row, d.subject, format, args...)
}

// resolve decodes a schema. It resolves a reference and removes null from the types.
func resolve(data json.RawMessage, named map[string]json.RawMessage) schema {
	var s schema
	if len(data) == 0 || json.Unmarshal(data, &s) != nil {
		return schema{}
	}
	if len(s.AnyOf) > 0 {
		return resolve(s.AnyOf[0], named)
	}
	if name, ok := manifest.Named(s.Ref); ok {
		return resolve(named[name], named)
	}
	return s
}

// kind returns the JSON type that a schema allows. It ignores null.
func (s schema) kind() string {
	switch t := s.Type.(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if name, ok := one.(string); ok && name != "null" {
				return name
			}
		}
	}
	return ""
}

// params compares parameters by their stored names.
func (d *differ) params(old, now []manifest.Param, as role) {
	byName := func(ps []manifest.Param) map[string]json.RawMessage {
		all := map[string]json.RawMessage{}
		for _, p := range ps {
			all[p.Name] = p.Schema
		}
		return all
	}
	d.properties(byName(old), byName(now), "", as, true, nil)
}

// properties compares values that are stored by name.
func (d *differ) properties(old, now map[string]json.RawMessage, path string, as role, always bool, required []string) {
	isParam := path == ""
	var gone, added []string
	for _, name := range slices.Sorted(maps.Keys(old)) {
		here, ok := now[name]
		if !ok {
			here, ok = foldedIn(now, name)
		}
		if !ok {
			gone = append(gone, name)
			continue
		}
		every := isParam || slices.Contains(required, name) // Every record contains the value.
		d.types(old[name], here, join(path, name), as, always && every)
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if _, ok := old[name]; !ok {
			if _, folded := foldedIn(old, name); !folded {
				added = append(added, name)
			}
		}
	}
	gone, added = d.renamedIn(gone, added, old, now, path, as, always)
	for _, name := range gone {
		d.gone(join(path, name), isParam, as)
	}
	for _, name := range added {
		d.added(join(path, name), isParam, as)
	}
}

// renamedIn reports each removed name that an added name replaces. It returns the remaining removed
// and added names.
func (d *differ) renamedIn(gone, added []string, old, now map[string]json.RawMessage, path string, as role, always bool) (restGone, restAdded []string) {
	for _, name := range gone {
		i := slices.IndexFunc(added, func(a string) bool { return sameJSON(old[name], now[a]) })
		if i < 0 || as == messages {
			restGone = append(restGone, name)
			continue
		}
		row, what, class := "field.renamed", "field", Breaks
		if path == "" {
			row, what = "param.renamed", "parameter"
			if as == inputs {
				row = "input.renamed"
			}
		}
		if !always {
			class = Care
		}
		d.reportf(class, row, "%s %s is stored as %s now", what, join(path, name), added[i])
		added = slices.Delete(slices.Clone(added), i, i+1)
	}
	return restGone, added
}

func (d *differ) gone(path string, isParam bool, as role) {
	switch {
	case isParam && as == inputs:
		d.reportf(Care, "input.removed", "the input %s is no longer read", path)
	case as == messages:
		d.reportf(Care, "declared.type", "field %s is no longer read", path)
	}
}

func (d *differ) added(path string, isParam bool, as role) {
	switch {
	case as == messages:
		d.reportf(Care, "declared.type", "field %s was added, and is empty in data that was stored before", path)
	case as == arguments && !isParam:
		d.reportf(Care, "field.added", "field %s was added: recorded calls are compatible while it is empty", path)
	}
}

// types compares the old and the new type of the value at a path. If always is true, every record
// has a value there.
func (d *differ) types(oldData, nowData json.RawMessage, path string, as role, always bool) {
	old, now := resolve(oldData, d.old), resolve(nowData, d.now)
	key := string(oldData) + "\n" + string(nowData)
	if d.visited == nil {
		d.visited = map[string]bool{}
	}
	if d.visited[key] {
		return
	}
	d.visited[key] = true
	defer delete(d.visited, key)
	a, b := old.kind(), now.kind()
	switch {
	case old.Custom != now.Custom:
		d.retyped(Care, "type.custom", path, as, "marshals itself in another way")
	case old.Custom != "":
	case a == "" && b == "":
		if !bytes.Equal(oldData, nowData) {
			d.retyped(Care, "type.float", path, as, "may have different JSON")
		}
	case a == "" || b == "":
		d.retyped(Care, "type.float", path, as, "may have different JSON")
	case a == "integer" && b == "number" || a == "number" && b == "integer":
		d.retyped(Care, "type.float", path, as, "was "+a+" and is "+b+": whole numbers fit")
	case a != b || old.Encoding != now.Encoding || (len(old.Quoted) > 0) != (len(now.Quoted) > 0):
		class := Breaks
		if !always {
			class = Care
		}
		d.retyped(class, "type.other", path, as, "was "+a+" and is "+b)
	case old.Format != now.Format:
		d.retyped(Care, "type.float", path, as, "was text of another format")
	case a == "array":
		d.types(old.Items, now.Items, path+"[]", as, false)
	case a == "object" && (len(old.Values) > 0) != (len(now.Values) > 0):
		d.retyped(Care, "type.float", path, as, "changed between a structure and a map")
	case a == "object" && len(old.Values) > 0:
		d.types(old.Values, now.Values, path+"[]", as, false)
	case a == "object":
		nullable := func(s json.RawMessage) bool { return bytes.Contains(s, []byte("anyOf")) }
		d.properties(old.Properties, now.Properties, path, as, always && !nullable(oldData), old.Required)
	}
}

func (d *differ) retyped(class Class, row, path string, as role, what string) {
	switch {
	case as == messages:
		class, row = Care, "declared.type"
	case as == results && row == "type.other":
		row = "result.retyped"
	}
	d.reportf(class, row, "%s %s", path, what)
}

// result compares the result types of a step.
func (d *differ) result(old, now json.RawMessage) {
	switch {
	case len(old) == 0 && len(now) == 0:
	case len(old) == 0:
		d.reportf(Care, "result.none", "it had no result: recorded calls give the zero value")
	case len(now) == 0:
		d.reportf(Care, "result.none", "it has no result any more")
	default:
		d.types(old, now, "result", results, true)
	}
}

func foldedIn(m map[string]json.RawMessage, name string) (json.RawMessage, bool) {
	for other, v := range m {
		if strings.EqualFold(other, name) {
			return v, true
		}
	}
	return nil, false
}

func sameJSON(a, b json.RawMessage) bool {
	sa, sb := resolve(a, nil), resolve(b, nil)
	if sa.Ref != "" || sb.Ref != "" || len(sa.Properties) > 0 {
		return bytes.Equal(a, b)
	}
	return sa.kind() == sb.kind()
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}
