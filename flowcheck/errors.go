package flowcheck

import (
	"go/ast"
	"go/types"
	"path/filepath"

	"github.com/flowgen/flowgen/internal/name"
)

var droppedRule = rule{name: "dropped"}

// checkDropped finds errors and futures that the code does not use.
func checkDropped(p *packagePass, u *unit) {
	if !u.isFlow {
		return
	}
	p.inspect(u, func(n ast.Node) {
		stmt, isStmt := n.(*ast.ExprStmt)
		if !isStmt {
			return
		}
		call, isCall := ast.Unparen(stmt.X).(*ast.CallExpr)
		if !isCall {
			return
		}
		fn := origin(callee(p.pass.TypesInfo, call))
		if fn == nil {
			return
		}
		results := fn.Signature().Results()
		if results.Len() == 0 {
			return
		}
		last := results.At(results.Len() - 1).Type()
		switch {
		case isErrorType(last) && p.isDurableFunc(fn):
			p.report("dropped", call.Pos(), call.End(), "the error of "+display(fn)+" is dropped: check it, or write _ = if that is meant")
		case isFuture(last):
			p.report("dropped", call.Pos(), call.End(), "nobody asks for the result of "+display(fn)+", nor for its error: keep it and call Get, or write _ = if that is meant")
		}
	})
}

func isFuture(t types.Type) bool {
	ptr, isPointer := types.Unalias(t).(*types.Pointer)
	return isPointer && isNamed(ptr.Elem(), workflowPath, "Future", "Child")
}

var sentinelRule = rule{name: "sentinel"}

// checkSentinel finds comparisons of the error of a step or child with an error variable that is
// not registered with the runtime. The comparison is never true, because a recorded error does not
// equal an unregistered variable.
func checkSentinel(p *packagePass, u *unit) {
	if !u.isFlow {
		return
	}
	p.inspect(u, func(n ast.Node) {
		call, isCall := n.(*ast.CallExpr)
		if !isCall || len(call.Args) != 2 || !isFunc(callee(p.pass.TypesInfo, call), "errors", "Is") {
			return
		}
		err, isIdent := ast.Unparen(call.Args[0]).(*ast.Ident)
		v := rootVar(p.pass.TypesInfo, call.Args[1])
		if !isIdent || !isPackageVar(v) || v.Pkg() != p.pass.Pkg || p.sentinels[v] || !isErrorType(v.Type()) || !p.isRecorded(u, err) {
			return
		}
		p.report("sentinel", call.Args[1].Pos(), call.Args[1].End(), v.Name()+" has no //flow:error, so that an error which was recorded never matches it: put //flow:error on its declaration")
	})
}

// isRecorded reports whether all values that are assigned to a variable are errors of generated
// functions.
func (p *packagePass) isRecorded(u *unit, id *ast.Ident) bool {
	v := p.pass.TypesInfo.Uses[id]
	recorded, other := false, false
	ast.Inspect(u.body, func(n ast.Node) bool {
		assign, isAssign := n.(*ast.AssignStmt)
		if !isAssign {
			return true
		}
		for i, left := range assign.Lhs {
			l, isIdent := left.(*ast.Ident)
			if !isIdent || p.pass.TypesInfo.ObjectOf(l) != v {
				continue
			}
			right := assign.Rhs[0]
			if len(assign.Rhs) == len(assign.Lhs) {
				right = assign.Rhs[i]
			}
			call, isCall := ast.Unparen(right).(*ast.CallExpr)
			if isCall && p.isGenerated(origin(callee(p.pass.TypesInfo, call))) {
				recorded = true
			} else {
				other = true
			}
		}
		return true
	})
	return recorded && !other
}

// Counterpart is the fact of a function that was generated as the counterpart of a step.
type Counterpart struct{}

// AFact implements [analysis.Fact].
func (*Counterpart) AFact() {}

// String returns a description of the function.
func (*Counterpart) String() string { return "counterpart of a step" }

// exportCounterparts exports a Counterpart fact for each counterpart of a step in the package.
func (p *packagePass) exportCounterparts() {
	for _, u := range p.units {
		if u.fn != nil && u.isFlow && ast.IsGenerated(u.file) && filepath.Base(p.pass.Fset.Position(u.file.FileStart).Filename) == name.Output {
			p.pass.ExportObjectFact(u.fn, &Counterpart{})
		}
	}
}

// isGenerated reports whether fn is the counterpart of a step. fn may belong to any package.
func (p *packagePass) isGenerated(fn *types.Func) bool {
	return fn != nil && fn.Pkg() != nil && p.pass.ImportObjectFact(fn, &Counterpart{})
}
