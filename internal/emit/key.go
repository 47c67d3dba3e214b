package emit

import (
	"go/ast"
	"go/types"

	"github.com/dave/jennifer/jen"
	"github.com/flowgen/flowgen/internal/model"
)

// replacement is a part of a key expression that is spelled differently in the generated file.
type replacement struct {
	from, to int // byte offsets in the expression
	code     jen.Code
}

// key writes the user's expression of a key with the imports and parameter names of the generated
// file.
func (e *emitter) key(k *model.Key, params []model.Param, spelled func(i int) jen.Code) *jen.Statement {
	text := k.Text
	out, at := jen.Null(), 0
	for _, r := range e.replacements(k, params, spelled) {
		if r.from < at {
			continue
		}
		if r.from > at {
			out.Op(text[at:r.from])
		}
		out.Add(r.code)
		at = r.to
	}
	if at < len(text) {
		out.Op(text[at:])
	}
	return out
}

func (e *emitter) replacements(k *model.Key, params []model.Param, spelled func(i int) jen.Code) []replacement {
	var rs []replacement
	replace := func(n ast.Node, code jen.Code) {
		rs = append(rs, replacement{int(n.Pos()) - 1, int(n.End()) - 1, code})
	}
	ast.Inspect(k.Expr, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				if _, ok := k.Info.Uses[x].(*types.PkgName); ok {
					replace(n, e.object(k.Info.Uses[n.Sel]))
					return false
				}
			}
		case *ast.Ident:
			obj := k.Info.Uses[n]
			for i, p := range params {
				if obj == p.Var {
					replace(n, spelled(i))
				}
			}
			if obj != nil && obj.Pkg() != nil && obj.Pkg() != e.model.Types && obj.Parent() == obj.Pkg().Scope() {
				replace(n, e.object(obj)) // The name is from a dot import.
			}
		}
		return true
	})
	return rs
}
