package payload

import (
	"cmp"
	"fmt"
	"go/types"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// structure checks the fields of a struct and reports fields that encoding/json does not encode.
func (c *checker) structure(at place, t types.Type, s *types.Struct) {
	foreign := false
	for i := range s.NumFields() {
		f := s.Field(i)
		if c.foreign(f) && reflect.StructTag(s.Tag(i)).Get("json") != "-" {
			if !foreign {
				c.fault(at.field(f.Name()), f.Type(), "is unexported in package "+f.Pkg().Path()+", so it would be lost",
					"store what the value is made from, or a type of your own with MarshalJSON and UnmarshalJSON")
			}
			foreign = true
			continue
		}
		c.field(at, f, s.Tag(i))
	}
	c.ambiguous(at, t, s)
}

// foreign reports whether f would be lost and belongs to a package that the user cannot change. One
// such field is reported for each struct.
func (c *checker) foreign(f *types.Var) bool {
	return !f.Exported() && !f.Embedded() && f.Name() != "_" && f.Pkg() != nil && f.Pkg() != c.from
}

func (c *checker) field(at place, f *types.Var, tag string) {
	at = at.field(f.Name())
	options := reflect.StructTag(tag).Get("json")
	switch {
	case options == "-" || f.Name() == "_":
		return // The tag omits the field on purpose.
	case f.Embedded():
		c.embedded(at, f, options)
	case !f.Exported():
		c.fault(at, f.Type(), "is unexported, so it would be lost",
			`export it, give its struct MarshalJSON and UnmarshalJSON, or accept the loss with the tag json:"-"`)
	default:
		c.check(at, f.Type())
	}
}

// embedded checks an embedded field by the rules of encoding/json. The fields of an embedded struct
// count as fields of the outer struct, even if the embedded type is unexported. The exception is a
// pointer to an unexported type.
func (c *checker) embedded(at place, f *types.Var, options string) {
	elem := types.Unalias(f.Type())
	pointer, isPointer := elem.(*types.Pointer)
	if isPointer {
		elem = types.Unalias(pointer.Elem())
	}
	_, isStruct := elem.Underlying().(*types.Struct)
	tagged, _, _ := strings.Cut(options, ",")
	switch {
	case f.Exported():
		c.check(at, f.Type())
	case isStruct && !isPointer && tagged == "":
		c.check(at, f.Type())
	case isStruct && isPointer:
		c.fault(at, f.Type(), "is an embedded pointer to an unexported struct, which cannot be read back", "embed the struct itself, or export its type")
	default:
		c.fault(at, f.Type(), "is unexported, so it would be lost", "give it an exported name")
	}
}

// candidate is a field that encoding/json could store under a name.
type candidate struct {
	path   string
	depth  int
	tagged bool
}

// ambiguous reports fields that encoding/json omits because their names are equal. At the smallest
// depth, all fields with the same name are omitted unless exactly one of them is tagged.
func (c *checker) ambiguous(at place, t types.Type, s *types.Struct) {
	byName := make(map[string][]candidate)
	collect(byName, s, "", 0, make(map[*types.Struct]bool))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		fields := byName[name]
		slices.SortStableFunc(fields, func(a, b candidate) int {
			return cmp.Or(cmp.Compare(a.depth, b.depth), compareTagged(a, b))
		})
		const fix = "give one of them another json tag"
		for i, f := range fields[1:] {
			what := fmt.Sprintf("stores both %s and %s as %q, so %s would be lost", fields[0].path, f.path, name, f.path)
			if i == 0 && f.depth == fields[0].depth && f.tagged == fields[0].tagged {
				what = fmt.Sprintf("stores both %s and %s as %q, so both would be lost", fields[0].path, f.path, name)
			}
			c.fault(at, t, what, fix)
		}
	}
}

func compareTagged(a, b candidate) int {
	switch {
	case a.tagged == b.tagged:
		return 0
	case a.tagged:
		return -1
	}
	return 1
}

// collect adds the fields of s and of its embedded structs to byName. above contains the structs in
// which s is embedded.
func collect(byName map[string][]candidate, s *types.Struct, path string, depth int, above map[*types.Struct]bool) {
	if above[s] {
		return
	}
	above[s] = true
	defer delete(above, s)
	for i := range s.NumFields() {
		f := s.Field(i)
		options := reflect.StructTag(s.Tag(i)).Get("json")
		name, _, _ := strings.Cut(options, ",")
		if options == "-" || !f.Embedded() && !f.Exported() {
			continue
		}
		if inner, ok := embeddedStruct(f); ok && name == "" {
			collect(byName, inner, path+f.Name()+".", depth+1, above)
			continue
		}
		key := cmp.Or(name, f.Name())
		byName[key] = append(byName[key], candidate{path + f.Name(), depth, name != ""})
	}
}

func embeddedStruct(f *types.Var) (*types.Struct, bool) {
	if !f.Embedded() {
		return nil, false
	}
	t := types.Unalias(f.Type())
	if p, ok := t.(*types.Pointer); ok {
		t = types.Unalias(p.Elem())
	}
	s, ok := t.Underlying().(*types.Struct)
	return s, ok
}
