package model

import (
	"go/ast"
	"go/types"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/payload"
)

// failure adds a type or variable with //flow:error to the model, or reports mistakes.
func (b *builder) failure(node ast.Node, ds []directive.Directive) {
	if len(ds) > 1 {
		b.report(ds[1].Pos, describe(node)+" has //flow:error twice", "keep one")
		return
	}
	d := ds[0]
	if len(d.Errors) > 0 {
		b.report(d.Errors[0].Pos, "//flow:error "+d.Errors[0].String()+" is on "+describe(node), "put it on the package clause, or leave out the name")
		return
	}
	var id *ast.Ident
	switch node := node.(type) {
	case *ast.TypeSpec:
		id = node.Name
	case *ast.ValueSpec:
		if len(node.Names) > 1 {
			b.report(d.Pos, "//flow:error is on several variables at once", "declare each on its own line with a directive of its own")
			return
		}
		id = node.Names[0]
	}
	f := &Failure{Stored: b.stored(id.Name, d), pos: id.Pos()}
	switch obj := b.Info.Defs[id].(type) {
	case *types.TypeName:
		if f.Type = b.failureType(obj, id); f.Type == nil {
			return
		}
	case *types.Var:
		if !isError(obj.Type()) {
			b.notError(node, id)
			return
		}
		if !b.sentinel(node, id, obj) {
			return
		}
		f.Sentinel = obj
	default:
		b.report(id.Pos(), describe(node)+" cannot be used", "give it a name, and mend the errors of the compiler first")
		return
	}
	b.model.Failures = append(b.model.Failures, f)
}

// failureType returns the type of the errors as it occurs in error chains. It is a pointer type if
// the method Error has a pointer receiver.
func (b *builder) failureType(obj *types.TypeName, id *ast.Ident) types.Type {
	title := "type " + id.Name
	t := obj.Type()
	named, isNamed := t.(*types.Named)
	switch {
	case isNamed && named.TypeParams().Len() > 0:
		b.report(id.Pos(), title+" is generic", "declare a type for one instance of it and annotate that")
		return nil
	case types.IsInterface(t):
		b.report(id.Pos(), title+" is an interface, which cannot be read back", "annotate the types that implement it")
		return nil
	case obj.IsAlias():
		b.report(id.Pos(), title+" is an alias", "annotate the type itself, in its package")
		return nil
	}
	if !isError(t) {
		t = types.NewPointer(t)
	}
	if !isError(t) {
		b.report(id.Pos(), title+" does not implement error", "give it a method Error() string")
		return nil
	}
	for _, f := range payload.Check(id.Name, t, b.Types) {
		b.report(id.Pos(), title+": "+f.String(), f.Fix)
	}
	return t
}

// sentinel checks that a sentinel has a value and that the value is comparable. The runtime checks
// the same when the program starts.
func (b *builder) sentinel(node ast.Node, id *ast.Ident, obj *types.Var) bool {
	if spec, ok := node.(*ast.ValueSpec); ok && len(spec.Values) == 0 {
		b.report(id.Pos(), describe(node)+" has no value when the program starts", "give it one where it is declared")
		return false
	}
	if !types.Comparable(obj.Type()) {
		b.report(id.Pos(), describe(node)+" has a type that cannot be compared", "use errors.New, or annotate its type instead")
		return false
	}
	return true
}

func (b *builder) notError(node ast.Node, id *ast.Ident) {
	b.report(id.Pos(), describe(node)+" is not an error", "annotate a variable whose type implements error")
}
