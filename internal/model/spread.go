package model

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
)

// keptIn describes which limits are kept in the same place as the parts of a limit. It is derived
// from declarations in this package.
type keptIn uint8

const (
	keptUnknown  keptIn = iota
	keptTogether        // in one place, with all other limits without Spread
	keptByKey           // each key in its own place
	keptByWorker        // in the memory of each worker
)

// keptApart reports limits that one run cannot use together: a limit that is spread by its key, and
// a limit that is kept elsewhere.
func (b *builder) keptApart(fn *Function, uses []Use) {
	var spread, other types.Object
	for _, u := range uses {
		switch b.placeOf(u.Limit) {
		case keptByKey:
			if spread != nil && other == nil {
				other = u.Limit
			} else {
				spread = u.Limit
			}
		case keptTogether:
			other = u.Limit
		case keptUnknown, keptByWorker:
		}
	}
	if spread != nil && other != nil {
		b.report(fn.Directive.At("uses"), fmt.Sprintf("uses names %s, which is spread by its key, with %s, which is kept elsewhere", spread.Name(), other.Name()),
			"declare "+spread.Name()+" without Spread, or use one of them in another step")
	}
}

// placeOf returns where a limit is kept, or keptUnknown if the declaration does not show it.
func (b *builder) placeOf(limit types.Object) keptIn {
	call := b.declarationOf(limit)
	if call == nil {
		return keptUnknown
	}
	name := b.calledOf(call)
	if name == "NewLocal" {
		return keptByWorker
	}
	if name != "New" && name != "NewKeyed" || len(call.Args) != 2 {
		return keptUnknown
	}
	config, ok := ast.Unparen(call.Args[1]).(*ast.CompositeLit)
	if !ok {
		return keptUnknown
	}
	for _, elt := range config.Elts {
		kv, ok := elt.(*ast.KeyValueExpr)
		if !ok {
			return keptUnknown
		}
		if id, ok := kv.Key.(*ast.Ident); ok && id.Name == "Spread" {
			value := b.Info.Types[kv.Value].Value
			if value == nil {
				return keptUnknown
			}
			if constant.BoolVal(value) {
				return keptByKey
			}
		}
	}
	return keptTogether
}

// calledOf returns the name of the called function of package limit, or "" for another function.
func (b *builder) calledOf(call *ast.CallExpr) string {
	fun := ast.Unparen(call.Fun)
	if index, ok := fun.(*ast.IndexExpr); ok {
		fun = index.X
	}
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return ""
	}
	if f, ok := b.Info.Uses[sel.Sel].(*types.Func); ok && f.Pkg() != nil && f.Pkg().Path() == limitPath {
		return f.Name()
	}
	return ""
}

// declarationOf returns the call that initializes the variable v, or nil if v has no such
// initializer in this package.
func (b *builder) declarationOf(v types.Object) (call *ast.CallExpr) {
	for _, init := range b.Info.InitOrder {
		if len(init.Lhs) == 1 && init.Lhs[0] == v {
			call, _ = ast.Unparen(init.Rhs).(*ast.CallExpr)
		}
	}
	return call
}
