package model

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
)

// keptIn is where the parts of a limit are kept, as far as its declaration is in this package.
type keptIn uint8

const (
	keptUnknown  keptIn = iota
	keptTogether        // that of all limits without Spread
	keptByKey           // each key has its own
	keptByWorker        // each worker has it
)

// keptApart reports uses that no run can have together: a part that is spread by its key, and
// what is kept elsewhere.
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

// placeOf reads the declaration of a limit.
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

// calledOf returns the function of package limit that a call calls; empty: another one.
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

// declarationOf returns the call by which a variable of this package is declared; nil: it is
// not declared so.
func (b *builder) declarationOf(v types.Object) (call *ast.CallExpr) {
	for _, init := range b.Info.InitOrder {
		if len(init.Lhs) == 1 && init.Lhs[0] == v {
			call, _ = ast.Unparen(init.Rhs).(*ast.CallExpr)
		}
	}
	return call
}
