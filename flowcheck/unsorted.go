package flowcheck

import (
	"go/ast"
	"go/types"
)

// Unsorted is the fact of a function that returns entries of a map in the order of iteration.
type Unsorted struct {
	First bool // the function returns only the first entry
}

// AFact implements [analysis.Fact].
func (*Unsorted) AFact() {}

// String returns a description of the result.
func (u *Unsorted) String() string {
	if u.First {
		return "returns the first entry of a map"
	}
	return "returns the entries of a map in their order"
}

// unsortedResult returns the Unsorted fact of a function of any package, or nil.
func (p *packagePass) unsortedResult(fn *types.Func) *Unsorted {
	if fn == nil || fn.Pkg() == nil || standard().has(fn.Pkg().Path()) || isEngine(fn.Pkg().Path()) {
		return nil
	}
	if fn.Pkg() == p.pass.Pkg {
		return p.unsorted[fn]
	}
	var u Unsorted
	if p.pass.ImportObjectFact(fn, &u) {
		return &u
	}
	return nil
}

// findUnsorted finds the functions of the package that return map entries in the order of
// iteration. A function that returns the result of such a function counts as well, so the search is
// repeated until it finds no further function.
func (p *packagePass) findUnsorted() {
	p.unsorted = make(map[*types.Func]*Unsorted)
	for more := true; more; {
		more = false
		for _, u := range p.units {
			if u.fn == nil || p.unsorted[u.fn] != nil || u.sig.Results().Len() != 1 || ast.IsGenerated(u.file) || p.annotated[u.fn] != nil {
				continue
			}
			if found := p.returnsUnsorted(u); found != nil {
				p.unsorted[u.fn], more = found, true
			}
		}
	}
	for fn, u := range p.unsorted {
		p.pass.ExportObjectFact(fn, u)
	}
}

func (p *packagePass) returnsUnsorted(u *unit) (found *Unsorted) {
	ast.Inspect(u.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.RangeStmt:
			if found == nil && p.returnsFirst(n) {
				found = &Unsorted{First: true}
			}
		case *ast.ReturnStmt:
			if found != nil || len(n.Results) != 1 {
				return true
			}
			switch e := ast.Unparen(n.Results[0]).(type) {
			case *ast.Ident:
				if v, isVar := p.pass.TypesInfo.Uses[e].(*types.Var); isVar && p.isFilledUnsorted(u, v) {
					found = &Unsorted{}
				}
			default:
				if p.isCollected(e) {
					found = &Unsorted{}
				} else if p.isFirst(e) {
					found = &Unsorted{First: true}
				}
			}
		}
		return true
	})
	return found
}

// returnsFirst reports whether the first statement in a loop over a map returns an entry.
func (p *packagePass) returnsFirst(loop *ast.RangeStmt) bool {
	if !isMap(p.pass.TypesInfo.TypeOf(loop.X)) && !p.isUnsorted(loop.X) || len(loop.Body.List) == 0 {
		return false
	}
	ret, isReturn := loop.Body.List[0].(*ast.ReturnStmt)
	if !isReturn || len(ret.Results) != 1 {
		return false
	}
	for _, e := range []ast.Expr{loop.Key, loop.Value} {
		if id, isIdent := e.(*ast.Ident); isIdent && id.Name != "_" && p.mentions(ret.Results, p.pass.TypesInfo.ObjectOf(id)) {
			return true
		}
	}
	return false
}

// isFilledUnsorted reports whether a function fills the local slice or string v from a map, without
// passing it to a function that may sort it.
func (p *packagePass) isFilledUnsorted(u *unit, v *types.Var) bool {
	if isPackageVar(v) {
		return false
	}
	filled, sorted := false, false
	ast.Inspect(u.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			if isMap(p.pass.TypesInfo.TypeOf(n.X)) || p.isUnsorted(n.X) || p.isCollected(n.X) {
				for _, other := range p.gathered(n) {
					filled = filled || other == v
				}
			}
		case *ast.AssignStmt:
			if len(n.Lhs) == 1 && len(n.Rhs) == 1 && p.isCollected(n.Rhs[0]) {
				id, isIdent := n.Lhs[0].(*ast.Ident)
				filled = filled || isIdent && p.pass.TypesInfo.ObjectOf(id) == v
			}
		case *ast.CallExpr:
			sorted = sorted || p.mentionsOrder(n.Args, v) && !p.leavesOrder(n)
		case *ast.UnaryExpr, *ast.IndexExpr:
			if assigned, isIndex := n.(*ast.IndexExpr); isIndex && rootVar(p.pass.TypesInfo, assigned) == v {
				sorted = true // Assignments to elements may sort the slice.
			}
		}
		return true
	})
	return filled && !sorted
}
