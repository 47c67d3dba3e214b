package flowcheck

import (
	"go/ast"
	"strings"

	"golang.org/x/tools/go/analysis"
)

var randomRule = rule{
	name: "random",
	does: "is random, and another value in every replay",
	mend: "use workflow.Rand or workflow.UUID, or draw it in a step",
}

// ofRand maps functions of math/rand to the corresponding methods of Rand in math/rand/v2.
var ofRand = map[string]string{
	"Int": "Int", "Intn": "IntN", "Int31": "Int32", "Int31n": "Int32N", "Int63": "Int64", "Int63n": "Int64N",
	"Uint32": "Uint32", "Uint64": "Uint64", "Float32": "Float32", "Float64": "Float64",
	"NormFloat64": "NormFloat64", "ExpFloat64": "ExpFloat64", "Perm": "Perm", "Shuffle": "Shuffle",
}

// fixRandom replaces package functions of math/rand if the corresponding method has the same type.
func fixRandom(p *packagePass, u *unit, pr prim) []analysis.SuggestedFix {
	call, isCall := pr.node.(*ast.CallExpr)
	ctx, flow := p.ctxName(u, pr.pos), p.importName(u.file, workflowPath)
	if !isCall || pr.fn == nil || ctx == "" || flow == "" || !strings.HasPrefix(pr.fn.Pkg().Path(), "math/rand") {
		return nil
	}
	method := ofRand[pr.fn.Name()]
	if pr.fn.Pkg().Path() == "math/rand/v2" && pr.fn.Name() != "N" {
		method = pr.fn.Name()
	}
	if method == "" {
		return nil
	}
	text := flow + ".Rand(" + ctx + ")." + method
	return suggest("Use "+flow+".Rand", analysis.TextEdit{Pos: call.Fun.Pos(), End: call.Fun.End(), NewText: []byte(text)})
}
