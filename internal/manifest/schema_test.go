package manifest

import (
	"encoding/json"
	"fmt"
	"go/types"
	"path/filepath"
	"slices"
	"testing"

	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/payload"
	"github.com/flowgen/flowgen/internal/payload/testdata/oracle"
)

// The test proves that the encoding of zero values, and of values without zero parts, conforms to
// the schema of their type.
func TestVER4_SchemasAreOfWhatIsWritten(t *testing.T) {
	set, err := load.Load(t.Context(), filepath.Join("..", "payload", "testdata", "oracle"), []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	pkg := set.Packages[0]
	judged := 0
	for name, v := range oracle.Values {
		typ := pkg.Types.Scope().Lookup(name).Type()
		if named, ok := typ.(*types.Named); !ok || named.TypeParams().Len() > 0 || len(payload.Check("v", typ, pkg.Types)) > 0 {
			continue
		}
		judged++
		world := NewWorld(set.Packages)
		s := &schemas{pkg: pkg.Types, named: map[string]json.RawMessage{}, custom: world.methodsOf}
		text := s.of(typ)
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for label, data := range map[string][]byte{"a value": data} {
			var decoded any
			if err := json.Unmarshal(data, &decoded); err != nil {
				t.Fatal(err)
			}
			if wrong := conforms(text, s.named, decoded, name); wrong != "" {
				t.Errorf("%s, %s: %s\nschema: %s\nvalue: %s", name, label, wrong, text, data)
			}
		}
	}
	if judged < 15 {
		t.Errorf("only %d types were judged", judged)
	}
}

// conforms returns a description of how a value violates a schema, or "" if the value conforms.
func conforms(data json.RawMessage, named map[string]json.RawMessage, v any, at string) string {
	var s struct {
		Ref        string                     `json:"$ref"`
		Type       any                        `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Required   []string                   `json:"required"`
		Items      json.RawMessage            `json:"items"`
		Values     json.RawMessage            `json:"additionalProperties"`
		AnyOf      []json.RawMessage          `json:"anyOf"`
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return err.Error()
	}
	if name, ok := Named(s.Ref); ok {
		return conforms(named[name], named, v, at)
	}
	if len(s.AnyOf) > 0 {
		if v == nil {
			return ""
		}
		return conforms(s.AnyOf[0], named, v, at)
	}
	if s.Type == nil {
		return ""
	}
	allowed := []string{}
	switch t := s.Type.(type) {
	case string:
		allowed = append(allowed, t)
	case []any:
		for _, one := range t {
			allowed = append(allowed, one.(string))
		}
	}
	kind := map[bool]string{true: "integer", false: "number"}
	is := "null"
	switch v := v.(type) {
	case bool:
		is = "boolean"
	case string:
		is = "string"
	case float64:
		is = kind[v == float64(int64(v)) && !slices.Contains(allowed, "number")]
	case []any:
		is = "array"
		for i, e := range v {
			if wrong := conforms(s.Items, named, e, fmt.Sprintf("%s[%d]", at, i)); wrong != "" {
				return wrong
			}
		}
	case map[string]any:
		is = "object"
		for key, e := range v {
			inner, ok := s.Properties[key]
			if !ok {
				inner, ok = s.Values, len(s.Values) > 0
			}
			if !ok {
				return at + "." + key + " is not in the schema"
			}
			if wrong := conforms(inner, named, e, at+"."+key); wrong != "" {
				return wrong
			}
		}
		for _, key := range s.Required {
			if _, ok := v[key]; !ok {
				return at + "." + key + " is missing"
			}
		}
	}
	if !slices.Contains(allowed, is) {
		return fmt.Sprintf("%s is %s, want %v", at, is, allowed)
	}
	return ""
}
