package manifest

import (
	"encoding/json"
	"go/types"
	"reflect"
	"slices"
	"strings"
)

// schemas creates JSON Schemas (draft 2020-12) for the encoding of types by encoding/json. A named
// struct has a name in the manifest, and other schemas refer to this name.
type schemas struct {
	pkg    *types.Package // package whose types have no prefix in their names
	named  map[string]json.RawMessage
	custom func(*types.Named) string
}

// schema is a JSON Schema. A nil schema means that a type has none.
type schema map[string]any

// of returns the schema of t as JSON.
func (s *schemas) of(t types.Type) json.RawMessage {
	if t == nil {
		return nil
	}
	return s.encode(s.schema(t))
}

func (s *schemas) encode(v schema) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic("manifest: cannot encode a schema: " + err.Error())
	}
	return data
}

func (s *schemas) schema(t types.Type) schema {
	t = types.Unalias(t)
	if named, ok := t.(*types.Named); ok {
		if special := wellKnown(named); special != nil {
			return special
		}
		if method := storesItself(t); method != "" {
			return schema{"x-custom": method + " " + s.custom(named), "x-go": s.name(named)}
		}
		if _, isStruct := t.Underlying().(*types.Struct); isStruct {
			return s.reference(named)
		}
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		return basic(u)
	case *types.Pointer:
		return nullable(s.schema(u.Elem()))
	case *types.Slice:
		if b, ok := u.Elem().Underlying().(*types.Basic); ok && b.Kind() == types.Byte && storesItself(u.Elem()) == "" {
			return schema{"type": []string{"string", "null"}, "contentEncoding": "base64"}
		}
		return schema{"type": []string{"array", "null"}, "items": s.schema(u.Elem())}
	case *types.Array:
		return schema{"type": "array", "items": s.schema(u.Elem()), "minItems": u.Len(), "maxItems": u.Len()}
	case *types.Map:
		return schema{"type": []string{"object", "null"}, "additionalProperties": s.schema(u.Elem())}
	case *types.Struct:
		return s.structure(u)
	}
	return schema{}
}

func basic(b *types.Basic) schema {
	switch info := b.Info(); {
	case info&types.IsBoolean != 0:
		return schema{"type": "boolean"}
	case info&types.IsInteger != 0:
		return schema{"type": "integer"}
	case info&types.IsFloat != 0:
		return schema{"type": "number"}
	case info&types.IsString != 0:
		return schema{"type": "string"}
	}
	return schema{}
}

// nullable returns a schema that allows null in addition to v.
func nullable(v schema) schema {
	switch t := v["type"].(type) {
	case string:
		v["type"] = []string{t, "null"}
		return v
	case []string:
		return v
	}
	if _, both := v["anyOf"]; both || len(v) == 0 {
		return v
	}
	return schema{"anyOf": []schema{v, {"type": "null"}}}
}

// wellKnown returns the schema of a type of the standard library whose encoding is documented and
// stable. It returns nil for all other types.
func wellKnown(t *types.Named) schema {
	obj := t.Obj()
	if obj.Pkg() == nil {
		return nil
	}
	switch obj.Pkg().Path() + "." + obj.Name() {
	case "time.Time":
		return schema{"type": "string", "format": "date-time"}
	case "encoding/json.RawMessage":
		return schema{}
	case "encoding/json.Number":
		return schema{"type": "number"}
	case "math/big.Int":
		return schema{"type": "integer"}
	}
	return nil
}

// storesItself returns the name of the method with which t encodes itself, or "".
func storesItself(t types.Type) string {
	if types.IsInterface(t) {
		return ""
	}
	methods := types.NewMethodSet(types.NewPointer(t))
	for _, name := range []string{"MarshalJSON", "MarshalText"} {
		sel := methods.Lookup(nil, name)
		if sel == nil {
			continue
		}
		sig, ok := sel.Type().(*types.Signature)
		if ok && sig.Params().Len() == 0 && sig.Results().Len() == 2 {
			return name
		}
	}
	return ""
}

// name returns the name of a type in the manifest. It has a package prefix unless the type belongs
// to the package itself.
func (s *schemas) name(t *types.Named) string {
	return types.TypeString(t, func(p *types.Package) string {
		if p == s.pkg {
			return ""
		}
		return p.Path()
	})
}

// reference returns a reference to a named struct. It adds the schema of the struct if it is
// missing.
func (s *schemas) reference(t *types.Named) schema {
	name := s.name(t)
	if _, known := s.named[name]; !known {
		s.named[name] = nil // The empty entry ends the recursion.
		v := s.structure(t.Underlying().(*types.Struct))
		v["x-go"] = t.Obj().Pkg().Name() + "." + t.Obj().Name()
		s.named[name] = s.encode(v)
	}
	return schema{"$ref": "#/types/" + pointerEscaper.Replace(name)}
}

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")

// Named returns the name of the type to which a reference refers.
func Named(ref string) (string, bool) {
	name, ok := strings.CutPrefix(ref, "#/types/")
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(name), ok
}

func (s *schemas) structure(u *types.Struct) schema {
	properties, required := schema{}, []string{}
	s.fields(u, properties, &required)
	v := schema{"type": "object", "properties": properties}
	if len(required) > 0 {
		slices.Sort(required)
		v["required"] = required
	}
	return v
}

// fields adds the encoded fields of u to properties. Fields of embedded structs come last, because
// direct fields hide them.
func (s *schemas) fields(u *types.Struct, properties schema, required *[]string) {
	var embedded []*types.Struct
	for i := range u.NumFields() {
		f := u.Field(i)
		tag, options, _ := strings.Cut(reflect.StructTag(u.Tag(i)).Get("json"), ",")
		inner, isStruct := embeddedStruct(f.Type())
		switch {
		case tag == "-" && options == "":
			continue
		case f.Embedded() && tag == "" && isStruct && storesItself(f.Type()) == "":
			embedded = append(embedded, inner)
			continue
		case !f.Exported():
			continue
		}
		name := f.Name()
		if tag != "" {
			name = tag
		}
		if _, taken := properties[name]; taken {
			continue
		}
		v := s.schema(f.Type())
		opts := strings.Split(options, ",")
		if slices.Contains(opts, "string") {
			v = schema{"type": "string", "x-quoted": v}
		}
		properties[name] = v
		if !slices.Contains(opts, "omitempty") && !slices.Contains(opts, "omitzero") {
			*required = append(*required, name)
		}
	}
	for _, inner := range embedded {
		s.fields(inner, properties, required)
	}
}

func embeddedStruct(t types.Type) (*types.Struct, bool) {
	t = types.Unalias(t)
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	u, ok := t.Underlying().(*types.Struct)
	return u, ok
}
