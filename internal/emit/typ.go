package emit

import (
	"go/types"

	"github.com/dave/jennifer/jen"
)

// qual returns a reference to a package-level name of another package.
func (e *emitter) qual(path, id string) *jen.Statement {
	base := path
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			base = path[i+1:]
			break
		}
	}
	e.imports.use(path, base)
	return jen.Qual(path, id)
}

// object returns a reference to a package-level object of any package.
func (e *emitter) object(obj types.Object) *jen.Statement {
	if obj.Pkg() == nil || e.declares(obj) {
		return jen.Id(obj.Name())
	}
	e.imports.use(obj.Pkg().Path(), obj.Pkg().Name())
	return jen.Qual(obj.Pkg().Path(), obj.Name())
}

// declares reports whether the package that is being written declares obj.
func (e *emitter) declares(obj types.Object) bool {
	if e.client != nil {
		return e.client.Has(obj)
	}
	return obj.Pkg() == e.model.Types
}

// typ returns t as the user wrote it. Aliases remain aliases.
func (e *emitter) typ(t types.Type) *jen.Statement {
	switch t := t.(type) {
	case *types.Basic:
		return jen.Id(t.Name())
	case *types.Named:
		return e.instance(t.Obj(), t.TypeArgs())
	case *types.Alias:
		return e.instance(t.Obj(), t.TypeArgs())
	case *types.Pointer:
		return jen.Op("*").Add(e.typ(t.Elem()))
	case *types.Slice:
		return jen.Index().Add(e.typ(t.Elem()))
	case *types.Array:
		return jen.Index(jen.Lit(int(t.Len()))).Add(e.typ(t.Elem()))
	case *types.Map:
		return jen.Map(e.typ(t.Key())).Add(e.typ(t.Elem()))
	case *types.Struct:
		return e.structure(t)
	case *types.Chan:
		return e.channel(t)
	case *types.Signature:
		return jen.Func().Add(e.signature(t))
	case *types.Interface:
		return e.iface(t)
	}
	// All other types, such as type parameters and constraint interfaces, cannot occur here.
	return jen.Id(t.String())
}

// channel returns a channel type. Channels, functions and interfaces are not valid as payloads.
// They may still occur within one, as an argument of a generic type or in a field that JSON omits.

func (e *emitter) channel(t *types.Chan) *jen.Statement {
	elem := e.typ(t.Elem())
	switch t.Dir() {
	case types.SendOnly:
		return jen.Chan().Op("<-").Add(elem)
	case types.RecvOnly:
		return jen.Op("<-").Chan().Add(elem)
	}
	if inner, ok := t.Elem().(*types.Chan); ok && inner.Dir() == types.RecvOnly {
		elem = jen.Parens(elem) // Without the parentheses, chan (<-chan T) would be chan<- chan T.
	}
	return jen.Chan().Add(elem)
}

// signature returns the parameters and results of a function type.
func (e *emitter) signature(t *types.Signature) *jen.Statement {
	var params, results []jen.Code
	for i := range t.Params().Len() {
		typ := t.Params().At(i).Type()
		if slice, ok := typ.(*types.Slice); ok && t.Variadic() && i == t.Params().Len()-1 {
			params = append(params, jen.Op("...").Add(e.typ(slice.Elem())))
			continue
		}
		params = append(params, e.typ(typ))
	}
	for v := range t.Results().Variables() {
		results = append(results, e.typ(v.Type()))
	}
	s := jen.Params(params...)
	switch len(results) {
	case 0:
		return s
	case 1:
		return s.Add(results[0])
	}
	return s.Params(results...)
}

func (e *emitter) iface(t *types.Interface) *jen.Statement {
	if t.NumMethods() == 0 && t.NumEmbeddeds() == 0 {
		return jen.Interface()
	}
	return jen.InterfaceFunc(func(g *jen.Group) {
		for m := range t.ExplicitMethods() {
			g.Id(m.Name()).Add(e.signature(m.Signature()))
		}
		for embedded := range t.EmbeddedTypes() {
			g.Add(e.typ(embedded))
		}
	})
}

func (e *emitter) instance(obj *types.TypeName, args *types.TypeList) *jen.Statement {
	s := e.object(obj)
	if args.Len() == 0 {
		return s
	}
	list := make([]jen.Code, args.Len())
	for i := range list {
		list[i] = e.typ(args.At(i))
	}
	return s.Types(list...)
}

func (e *emitter) structure(t *types.Struct) *jen.Statement {
	if t.NumFields() == 0 {
		return jen.Struct()
	}
	return jen.StructFunc(func(g *jen.Group) {
		for i := range t.NumFields() {
			field := e.typ(t.Field(i).Type())
			if !t.Field(i).Embedded() {
				field = jen.Id(t.Field(i).Name()).Add(field)
			}
			if tag := t.Tag(i); tag != "" {
				field.Op(quoteTag(tag))
			}
			g.Add(field)
		}
	})
}

// spells returns the unqualified identifiers in the source form of t within pkg.
func spells(t types.Type, pkg *types.Package) map[string]bool {
	ids := make(map[string]bool)
	var visit func(types.Type)
	visit = func(t types.Type) {
		switch t := t.(type) {
		case *types.Basic:
			ids[t.Name()] = true
		case *types.Named:
			visitName(ids, t.Obj(), t.TypeArgs(), pkg, visit)
		case *types.Alias:
			visitName(ids, t.Obj(), t.TypeArgs(), pkg, visit)
		case *types.Signature:
			for v := range t.Params().Variables() {
				visit(v.Type())
			}
			for v := range t.Results().Variables() {
				visit(v.Type())
			}
		case *types.Interface:
			for m := range t.ExplicitMethods() {
				visit(m.Signature())
			}
			for embedded := range t.EmbeddedTypes() {
				visit(embedded)
			}
		case interface{ Elem() types.Type }:
			if m, ok := t.(*types.Map); ok {
				visit(m.Key())
			}
			visit(t.Elem())
		case *types.Struct:
			for f := range t.Fields() {
				visit(f.Type())
			}
		}
	}
	if t != nil {
		visit(t)
	}
	return ids
}

func visitName(ids map[string]bool, obj *types.TypeName, args *types.TypeList, pkg *types.Package, visit func(types.Type)) {
	if obj.Pkg() == nil || obj.Pkg() == pkg {
		ids[obj.Name()] = true
	}
	for t := range args.Types() {
		visit(t)
	}
}
