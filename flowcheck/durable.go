package flowcheck

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/types/typeutil"
)

// durableOps lists the functions and methods of packages workflow and graph that are durable
// operations. Each of them records an event or draws from the random numbers of the run, so the
// order of their calls matters. Generated counterparts call functions of package shim instead.
var durableOps = strings.Fields(`
	All Any First Settled Select Go GoErr Map MapSettled ForEach Compensate CloseAsks
	Rand UUID Record Sleep SleepUntil Version WithTimeout WithDeadline
	(Ask).Handle (Child).Cancel (Child).Started (Future).Get (Graph).Run
	(Definition).Child (Definition).StartChild (Definition).ContinueAsNew
	(Hook).Open (OpenHook).Receive (OpenHook).Answer (OpenHook).Dispose (Stream).Write (Stream).Close
	(Topic).Receive (Topic).TryReceive (Topic).SendFrom (Value).Set
	StatusOf (Value).GetFrom (Value).WaitFrom (Stream).ReadFrom
`)

// otherOps lists the functions and methods of package workflow that take a workflow.Context and are
// not durable operations.
var otherOps = strings.Fields(`
	Info Now Logger LogLength Tick Detached WithStepOptions WithValue WithCancel
	Attributes MessageAttributes (CodeInterceptor).InterceptWorkflow
	(Context).Err (Context).Value
`)

// isDurable reports whether a function of the runtime is a durable operation.
func isDurable(fn *types.Func) bool {
	switch fn.Pkg().Path() {
	case workflowPath, graphPath:
		return slices.Contains(durableOps, opName(fn))
	case shimPath:
		return takes(fn.Signature(), isFlowContext) != nil
	}
	return false
}

func opName(fn *types.Func) string {
	if recv := fn.Signature().Recv(); recv != nil {
		return "(" + typeName(recv.Type()) + ")." + fn.Name()
	}
	return fn.Name()
}

// hasDurable returns the first call under n that certainly executes a durable operation, or nil. It
// ignores a function literal unless the literal is called under n.
func (p *packagePass) hasDurable(n ast.Node) *ast.CallExpr {
	var found *ast.CallExpr
	called := make(map[ast.Node]bool)
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			called[ast.Unparen(n.Fun)] = true
			if found == nil && p.isDurableCall(n) {
				found = n
			}
		case *ast.FuncLit:
			return found == nil && called[n]
		}
		return found == nil
	})
	return found
}

// isDurableCall reports whether call certainly executes a durable operation.
func (p *packagePass) isDurableCall(call *ast.CallExpr) bool {
	return p.isDurableFunc(origin(typeutil.StaticCallee(p.pass.TypesInfo, call)))
}

// mayBeDurable reports whether code under n may execute a durable operation. This is the case if
// the code calls an unknown function, or passes a workflow.Context to a function that is not known
// to be harmless.
func (p *packagePass) mayBeDurable(n ast.Node) bool {
	info, may := p.pass.TypesInfo, false
	ast.Inspect(n, func(n ast.Node) bool {
		call, isCall := n.(*ast.CallExpr)
		if !isCall || info.Types[call.Fun].IsType() || info.Types[call.Fun].IsBuiltin() {
			return !may
		}
		fn := origin(typeutil.StaticCallee(info, call))
		if fn == nil {
			may = true
			return false
		}
		if fn.Pkg() != nil && (fn.Pkg().Path() == workflowPath || fn.Pkg().Path() == graphPath) && !isDurable(fn) {
			return !may
		}
		may = may || p.isDurableFunc(fn) || slices.ContainsFunc(call.Args, func(arg ast.Expr) bool {
			t := info.TypeOf(arg)
			return t != nil && isFlowContext(t)
		})
		return !may
	})
	return may
}
