package model

import (
	"fmt"
	"go/token"
	"go/types"

	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/spelling"
)

// fatal returns the error that fatal= names in the scope of fn's file. It reports a mistake and
// returns false if there is no such error.
func (b *builder) fatal(fn *Function, ref directive.Reference) (Fatal, bool) {
	obj := b.resolve(fn.decl.Pos(), "fatal=", ref)
	if obj == nil {
		return Fatal{}, false
	}
	switch obj := obj.(type) {
	case *types.TypeName:
		return b.fatalType(ref, obj)
	case *types.Var, *types.Const:
		if ref.Pointer {
			b.report(ref.Pos, fmt.Sprintf("fatal=%s points to a variable", ref), "write it without *")
			return Fatal{}, false
		}
		if !isError(obj.Type()) {
			b.report(ref.Pos, fmt.Sprintf("fatal=%s is not an error", ref), "name a variable or type that implements error")
			return Fatal{}, false
		}
		return Fatal{Sentinel: obj}, true
	}
	b.report(ref.Pos, fmt.Sprintf("fatal=%s is neither a variable nor a type", ref), "name a variable or type that implements error")
	return Fatal{}, false
}

func (b *builder) fatalType(ref directive.Reference, obj *types.TypeName) (Fatal, bool) {
	t := obj.Type()
	if named, ok := t.(*types.Named); ok && named.TypeParams().Len() > 0 {
		b.report(ref.Pos, fmt.Sprintf("fatal=%s is a generic type", ref), "declare a type for one instance of it and name that")
		return Fatal{}, false
	}
	if ref.Pointer {
		t = types.NewPointer(t)
	}
	if isError(t) {
		return Fatal{Type: t}, true
	}
	fix := "name a variable or type that implements error"
	if !ref.Pointer && isError(types.NewPointer(t)) {
		fix = "did you mean *" + ref.String() + "?"
	}
	b.report(ref.Pos, fmt.Sprintf("fatal=%s does not implement error", ref), fix)
	return Fatal{}, false
}

// resolve returns the object that ref names in the scope of the file at pos. If there is none,
// resolve reports the mistake and returns nil. option is the text in front of ref, for messages.
func (b *builder) resolve(pos token.Pos, option string, ref directive.Reference) types.Object {
	file := b.Types.Scope().Innermost(pos)
	for file != nil && file.Parent() != b.Types.Scope() {
		file = file.Parent()
	}
	if file == nil {
		b.report(ref.Pos, fmt.Sprintf("%s%s cannot be looked up", option, ref), "mend the errors of the compiler first")
		return nil
	}
	scope, where := file, "this package"
	if ref.Qualifier != "" {
		_, obj := file.LookupParent(ref.Qualifier, 0)
		imported, ok := obj.(*types.PkgName)
		if !ok {
			b.report(ref.Pos, fmt.Sprintf("%s%s: this file imports no %s", option, ref, ref.Qualifier), "import it, or declare the error in this package")
			return nil
		}
		scope, where = imported.Imported().Scope(), "package "+imported.Imported().Path()
	}
	_, obj := scope.LookupParent(ref.Name, 0)
	if ref.Qualifier != "" {
		obj = scope.Lookup(ref.Name)
	}
	if obj == nil || ref.Qualifier != "" && !obj.Exported() {
		fix := "name a variable or type that implements error"
		if near := spelling.Nearest(ref.Name, errorNames(scope, b.Types.Scope(), ref.Qualifier != "")); near != "" {
			fix = "did you mean " + near + "?"
		}
		b.report(ref.Pos, fmt.Sprintf("%s%s: there is no %s in %s", option, ref, ref.Name, where), fix)
		return nil
	}
	return obj
}

// errorNames returns the names of the errors in a scope, which messages suggest in place of an
// unknown name.
func errorNames(scope, pkg *types.Scope, qualified bool) []string {
	if !qualified {
		scope = pkg
	}
	var names []string
	for _, n := range scope.Names() {
		obj := scope.Lookup(n)
		if qualified && !obj.Exported() {
			continue
		}
		if isError(obj.Type()) || isError(types.NewPointer(obj.Type())) {
			names = append(names, n)
		}
	}
	return names
}

// isError reports whether t implements error.
func isError(t types.Type) bool {
	return types.Implements(t, types.Universe.Lookup("error").Type().Underlying().(*types.Interface))
}
