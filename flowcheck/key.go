package flowcheck

import (
	"go/ast"
	"go/token"
	"slices"
)

var keyRule = rule{name: "key"}

// keyEffects lists the rules whose violation can make a key differ between an execution and its
// replay.
var keyEffects = []Rule{"clock", "random", "io", "env", "global"}

// A keyPart is an expression that determines the name of an operation in the log.
type keyPart struct {
	pos, end token.Pos
	what     string
	report   token.Pos // position for the report; if it is not valid, the position of the operation
}

// keyParts returns the expressions in a unit that determine keys.
func (p *packagePass) keyParts(u *unit) []keyPart {
	var parts []keyPart
	p.inspect(u, func(n ast.Node) {
		call, isCall := n.(*ast.CallExpr)
		if !isCall || len(call.Args) == 0 {
			return
		}
		part := keyPart{pos: call.Args[0].Pos(), end: call.Args[0].End()}
		switch fn := origin(callee(p.pass.TypesInfo, call)); {
		case isFunc(fn, workflowPath, "Key"):
			part.what = "the key of a step"
		case isFunc(fn, shimPath, "Key"):
			part.what = "the key of a step"
			if u.fn != nil {
				part.report = p.keyPos[u.fn.Name()]
			}
		case isFunc(fn, workflowPath, "WithID"):
			part.what = "the id of a child"
		case isFunc(fn, workflowPath, "IdempotencyKey"):
			part.what = "the key of a message"
		case isFunc(fn, workflowPath, "Token"):
			part.what = "the token of a hook"
		case isFunc(fn, workflowPath, "Version") && len(call.Args) > 1:
			part = keyPart{pos: call.Args[1].Pos(), end: call.Args[1].End(), what: "the name of a change"}
		default:
			return
		}
		parts = append(parts, part)
	})
	return parts
}

// keyAt reports an effect at pos that influences a key. The result is true if pos is inside a key
// expression.
func (p *packagePass) keyAt(parts []keyPart, e Effect, pos, end token.Pos) bool {
	for _, part := range parts {
		if part.pos > pos || end > part.end || !slices.Contains(keyEffects, e.Rule) {
			continue
		}
		if part.report.IsValid() {
			pos, end = part.report, part.report
		}
		p.report("key", pos, end, part.what+" is made with "+e.String()+", which no replay repeats: make it of the workflow's input or what steps returned")
		return true
	}
	return false
}
