package client

import (
	"fmt"
	"go/ast"
	"go/types"
)

// The suggested fixes for a type, for a variable, and for an expression in a directive.
const (
	ownPackage  = "move it to a package of its own, without directives, which the client imports"
	plainValue  = "declare it by constants and functions of other modules"
	plainOption = "write it with parameters, their fields and constants"
)

// method identifies a method of a named type.
type method struct {
	symbol
	name string
}

// requirement is a method that copied text calls.
type requirement struct {
	method
	path, title, fix string
	at               place
}

// scan finds the references in the text of a declaration.
type scan struct {
	b     *builder
	from  place // position of the declaration
	info  *types.Info
	pkg   *types.Package // package of the declaration
	title string         // description of the declaration in diagnostics
	path  string
	fix   string // suggested fix for an invalid reference
	fixed bool   // positions in the text are not positions in the file
	// code reports whether the text is executed and may therefore need unexported fields.
	code bool

	replaced []replacement
	bare     map[string]bool // names that are copied without their package qualifier
	defined  map[string]bool // names defined inside the declaration
}

// replacement is an identifier that is spelled differently in the client.
type replacement struct {
	node ast.Node
	obj  types.Object
}

func (s *scan) at(n ast.Node) place {
	if s.fixed {
		return s.from
	}
	return place{s.from.p, n.Pos()}
}

// visit processes a node. It is a callback of ast.Inspect.
func (s *scan) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok {
			if imported, ok := s.info.Uses[x].(*types.PkgName); ok {
				s.qualified(n, imported)
				return false
			}
		}
	case *ast.Ident:
		s.identifier(n)
	}
	return true
}

func (s *scan) qualified(n *ast.SelectorExpr, imported *types.PkgName) {
	obj := s.info.Uses[n.Sel]
	if obj == nil || imported.Imported().Path() == "C" || imported.Imported().Path() == "unsafe" {
		s.b.fault(s.path, s.at(n), s.title+", which uses "+types.ExprString(n), s.fix)
		return
	}
	s.object(n, obj)
	s.replaced = append(s.replaced, replacement{n, obj})
	if s.bare == nil {
		s.bare = map[string]bool{}
	}
	s.bare[obj.Name()] = true
}

func (s *scan) identifier(n *ast.Ident) {
	obj := s.info.Uses[n] // For an embedded field, the object is the type.
	if def := s.info.Defs[n]; def != nil && obj == nil {
		if def.Parent() != nil && def.Parent() != s.pkg.Scope() {
			if s.defined == nil {
				s.defined = map[string]bool{}
			}
			s.defined[n.Name] = true
			s.b.Locals[n.Name] = true
		}
		return
	}
	if obj == nil || obj.Pkg() == nil {
		return
	}
	if obj.Parent() != obj.Pkg().Scope() {
		s.member(n, obj)
		return
	}
	s.object(n, obj)
	if obj.Pkg() != s.pkg { // The name is from a dot import.
		s.replaced = append(s.replaced, replacement{n, obj})
	}
}

// object processes a reference to a package-level name.
func (s *scan) object(n ast.Node, obj types.Object) {
	b := s.b
	if !b.module(obj.Pkg()) {
		return
	}
	if path := obj.Pkg().Path(); b.imported[path] {
		b.need(obj, s.at(n))
		return
	}
	switch obj := obj.(type) {
	case *types.TypeName:
		if s.code {
			b.keeps(symbolOf(obj))
		}
		b.need(obj, s.at(n))
	case *types.Const:
		b.need(obj, s.at(n))
	case *types.Var:
		if b.sentinel(obj) || declares(obj.Type()) {
			b.need(obj, s.at(n))
			return
		}
		b.fault(s.path, s.at(n), s.title+", which uses variable "+obj.Name(), s.fix)
	default:
		b.fault(s.path, s.at(n), s.title+", which calls "+obj.Name(), s.fix)
	}
}

// sentinel reports whether a variable is an error that the client declares.
func (b *builder) sentinel(v *types.Var) bool {
	for _, f := range b.Model.Failures {
		if f.Sentinel == v && v.Exported() {
			return true
		}
	}
	return false
}

// member processes a reference to a field or method.
func (s *scan) member(n *ast.Ident, obj types.Object) {
	if !s.b.module(obj.Pkg()) || s.b.imported[obj.Pkg().Path()] {
		return
	}
	switch obj := obj.(type) {
	case *types.Var:
		if obj.IsField() && !obj.Exported() {
			s.b.keeps(s.from.p.Position(obj.Pos()))
		}
	case *types.Func:
		recv := obj.Signature().Recv()
		if recv == nil || types.IsInterface(recv.Type()) {
			return
		}
		t := types.Unalias(recv.Type())
		if pointer, ok := t.(*types.Pointer); ok {
			t = types.Unalias(pointer.Elem())
		}
		if named, ok := t.(*types.Named); ok {
			s.b.required = append(s.b.required, requirement{method{symbolOf(named.Obj()), obj.Name()}, s.path, s.title, s.fix, s.at(n)})
		}
	}
}

// captured reports copied names that lose their package qualifier and that a local name of the
// declaration would then shadow.
func (s *scan) captured() {
	for id := range s.bare {
		if s.defined[id] {
			for _, r := range s.replaced {
				if r.obj.Name() == id && s.b.copied[symbolOf(r.obj)] {
					s.b.fault(s.path, s.at(r.node), s.title+", which has a local "+id+" beside that of package "+r.obj.Pkg().Path(), "rename one of them")
				}
			}
		}
	}
}

// unmet reports methods that copied text calls but that the client does not contain.
func (b *builder) unmet() {
	for _, r := range b.required {
		if !b.imported[r.symbol.path] && !b.methods[r.method] {
			b.fault(r.path, r.at, fmt.Sprintf("%s, which calls method %s of %s", r.title, r.name, r.symbol.name), r.fix)
		}
	}
}
