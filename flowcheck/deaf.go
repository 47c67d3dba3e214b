package flowcheck

import "go/ast"

var deafRule = rule{name: "deaf"}

// checkDeaf finds loops that wait and never end, not even after the run is canceled.
func checkDeaf(p *packagePass, u *unit) {
	if !u.isFlow {
		return
	}
	p.inspect(u, func(n ast.Node) {
		if loop, isLoop := n.(*ast.ForStmt); isLoop && p.isDeaf(loop) {
			p.report("deaf", loop.Pos(), loop.Body.Lbrace, "no error leaves this loop: when the run is canceled, what waits in it fails at once, again and again: return the error")
		}
	})
}

func (p *packagePass) isDeaf(loop *ast.ForStmt) bool {
	return isEndless(p.pass.TypesInfo, loop) && p.hasDurable(loop.Body) != nil && !leaves(loop)
}
