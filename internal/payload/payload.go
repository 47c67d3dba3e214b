// Package payload checks whether values of a Go type can be stored, so that decoding the output of
// encoding/json restores them without loss.
//
// All arguments and results of durable calls are stored. A field that JSON silently omits
// (unexported or ambiguous) would exist in the first execution of a workflow but not in its replay.
// The package rejects such types and reports the path to the field, as in "order.Items[].Done (chan
// bool)".
package payload

import (
	"fmt"
	"go/types"
	"strings"
)

// Fault is a part of a type that cannot be stored without loss.
type Fault struct {
	Path string // path to the part, as in order.Items[].Done
	Type string // type of the part
	What string // the reason for the fault
	Fix  string

	Invalid bool // the type does not compile
}

// String returns the fault in one line without its fix.
func (f Fault) String() string { return fmt.Sprintf("%s (%s) %s", f.Path, f.Type, f.What) }

// Check returns all faults of t. Their paths start with root. Types of package from are printed
// without package name.
func Check(root string, t types.Type, from *types.Package) []Fault {
	c := checker{from: from, visited: make(map[visit]bool)}
	c.check(place{path: root}, t)
	return c.faults
}

// place is a position within the checked type.
type place struct {
	path string
	// addressable reports whether encoding/json can take the address of the value. If so, it calls
	// methods with pointer receivers.
	addressable bool
}

func (p place) field(name string) place { return place{p.path + "." + name, p.addressable} }

// visit identifies a type that has been checked, and whether its value was addressable.
type visit struct {
	t           types.Type
	addressable bool
}

type checker struct {
	from    *types.Package
	visited map[visit]bool
	faults  []Fault
}

func (c *checker) fault(at place, t types.Type, what, fix string) {
	c.faults = append(c.faults, Fault{Path: at.path, Type: types.TypeString(t, types.RelativeTo(c.from)), What: what, Fix: fix})
}

func (c *checker) check(at place, t types.Type) {
	t = types.Unalias(t)
	if named, ok := t.(*types.Named); ok {
		v := visit{t, at.addressable}
		if c.visited[v] {
			return
		}
		c.visited[v] = true
		if c.special(at, named) {
			return
		}
	}
	if c.custom(at, t) {
		return
	}
	switch u := t.Underlying().(type) {
	case *types.Basic:
		c.basic(at, t, u)
	case *types.Pointer:
		c.check(place{at.path, true}, u.Elem())
	case *types.Slice:
		c.check(place{at.path + "[]", true}, u.Elem())
	case *types.Array:
		c.check(place{at.path + "[]", at.addressable}, u.Elem())
	case *types.Map:
		c.mapKey(at, u.Key())
		c.check(place{at.path + "[]", false}, u.Elem())
	case *types.Struct:
		c.structure(at, t, u)
	case *types.Chan:
		c.fault(at, t, "is a channel, which cannot be stored", "remove it; to wait for something, use a message")
	case *types.Signature:
		c.fault(at, t, "is a function, which cannot be stored", "remove it, or pass what it is made from")
	case *types.Interface:
		c.iface(at, t, u)
	default:
		c.fault(at, t, "cannot be stored", "use a concrete type")
	}
}

// special checks types that are typical mistakes as a payload. It returns better messages than a
// check of their fields.
func (c *checker) special(at place, named *types.Named) bool {
	obj := named.Obj()
	if obj.Pkg() == nil {
		return false
	}
	switch full := obj.Pkg().Path() + "." + obj.Name(); {
	case full == "context.Context" || strings.HasSuffix(full, "/runtime/workflow.Context"):
		c.fault(at, named, "is a context, which cannot be stored", "keep one context, as the first parameter")
	case strings.HasSuffix(full, "/runtime/workflow.Client"), full == "database/sql.DB", full == "database/sql.Tx", full == "net/http.Client":
		c.fault(at, named, "is a dependency, which cannot be stored", "make the step a method and keep it in the receiver")
	case full == "encoding/json.RawMessage":
		// A RawMessage has both methods and can contain any JSON.
	default:
		return false
	}
	return true
}

func (c *checker) basic(at place, t types.Type, b *types.Basic) {
	switch {
	case b.Kind() == types.Invalid:
		c.fault(at, t, "has a type that does not compile", "mend the errors of the compiler first")
		c.faults[len(c.faults)-1].Invalid = true
	case b.Info()&types.IsComplex != 0:
		c.fault(at, t, "is a complex number, which JSON does not have", "store its real and imaginary part")
	case b.Kind() == types.UnsafePointer:
		c.fault(at, t, "is a pointer that means nothing in another process", "remove it")
	case b.Kind() == types.Uintptr:
		c.fault(at, t, "is an address that means nothing in another process", "use uint64")
	}
}

func (c *checker) iface(at place, t types.Type, u *types.Interface) {
	if types.Identical(t, types.Universe.Lookup("error").Type()) {
		c.fault(at, t, "is an interface, which cannot be read back", "store the text or a code of the error")
		return
	}
	fix := "use a concrete type"
	if u.Empty() {
		fix = "use a concrete type, or json.RawMessage for anything"
	}
	c.fault(at, t, "is an interface, which cannot be read back", fix)
}

// mapKey checks that encoding/json can encode and decode a key type.
func (c *checker) mapKey(at place, key types.Type) {
	at.path += "[key]"
	if b, ok := key.Underlying().(*types.Basic); ok && b.Info()&(types.IsString|types.IsInteger) != 0 && b.Kind() != types.Uintptr {
		if !hasMethod(key, "MarshalText") && !hasMethod(types.NewPointer(key), "UnmarshalText") {
			return
		}
	}
	if hasMethod(key, "MarshalText") && hasMethod(types.NewPointer(key), "UnmarshalText") {
		return
	}
	if b, ok := key.Underlying().(*types.Basic); ok && b.Kind() == types.Invalid {
		c.basic(at, key, b)
		return
	}
	c.fault(at, key, "cannot be a key of a JSON object", "use string or integer keys, or give the type MarshalText and UnmarshalText")
}
