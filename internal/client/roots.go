package client

import (
	"cmp"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"github.com/flowgen/flowgen/internal/model"
	"github.com/flowgen/flowgen/internal/name"
)

const workflowPath = runtimePath + "workflow"

// roots adds the API of the client: definitions, errors, and declarations of topics, hooks, values,
// streams and asks.
func (b *builder) roots() {
	for _, w := range b.Model.Workflows {
		at := place{b.own, w.Pos()}
		for _, p := range w.Params {
			b.reach(p.Type, at)
		}
		b.reach(w.Result, at)
		if w.Graph != nil {
			for _, r := range w.Graph.Results {
				b.reach(r.Type, at)
			}
		}
		b.policy(w, at)
	}
	for _, f := range b.Model.Failures {
		switch {
		case f.Sentinel != nil && f.Sentinel.Exported():
			b.need(f.Sentinel, place{b.own, f.Sentinel.Pos()})
		case f.Type != nil && exportedType(f.Type):
			b.reach(f.Type, place{b.own, f.Pos()})
		default:
			continue // Other packages cannot refer to the error.
		}
		b.Failures = append(b.Failures, f)
	}
	for _, f := range b.Model.Foreign {
		if b.module(f.Sentinel.Pkg()) {
			b.importSentinel(f.Sentinel)
		}
	}
	scope := b.own.Types.Scope()
	for _, id := range scope.Names() {
		if v, ok := scope.Lookup(id).(*types.Var); ok && v.Exported() && declares(v.Type()) {
			b.need(v, place{b.own, v.Pos()})
		}
	}
}

// importSentinel imports the package of the module that declares an error.
func (b *builder) importSentinel(sentinel types.Object) {
	at, path := place{b.own, b.Model.First}, sentinel.Pkg().Path()
	if b.imported[path] {
		return
	}
	why, below, err := b.importable(b.ctx, path)
	switch {
	case err != nil:
		b.err = cmp.Or(b.err, err)
	case why != "":
		b.fault(b.own.Path, at, "error "+sentinel.Name()+" of package "+path+", which "+why, "declare it in a package of its own, without directives")
	default:
		for _, path := range below {
			b.imported[path] = true
		}
	}
}

func exportedType(t types.Type) bool {
	if pointer, ok := t.(*types.Pointer); ok {
		t = pointer.Elem()
	}
	named, ok := t.(*types.Named)
	return ok && named.Obj().Exported()
}

// declares reports whether t is a type of package workflow that declares a topic, hook, value,
// stream or ask.
func declares(t types.Type) bool {
	named, ok := types.Unalias(t).(*types.Named)
	return ok && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == workflowPath &&
		slices.Contains([]string{"Topic", "Hook", "Value", "Stream", "Ask"}, named.Obj().Name())
}

// policy adds all declarations that the options of w refer to, if a start evaluates these options.
func (b *builder) policy(w *model.Workflow, at place) {
	keys := []*model.Key{w.Singleton, w.Collect, w.Priority}
	if w.Fair != nil {
		keys = append(keys, w.Fair.Key, w.Fair.Share)
	}
	for _, u := range w.Uses {
		b.need(u.Limit, at)
		keys = append(keys, u.Key)
	}
	for _, k := range keys {
		if k == nil {
			continue
		}
		s := scan{b: b, from: at, info: k.Info, pkg: b.own.Types, title: "the expression " + k.Text + " of workflow " + w.Impl, path: b.own.Path, fix: plainOption, fixed: true, code: true}
		ast.Inspect(k.Expr, s.visit)
		b.reachPrinted(k, at)
	}
}

// reachPrinted adds the type of a key, so that the client formats keys as the worker does.
func (b *builder) reachPrinted(k *model.Key, at place) { b.reach(k.Info.Types[k.Expr].Type, at) }

// generated returns the identifiers of the declarations that are generated instead of copied.
func (b *builder) generated() map[string]token.Pos {
	ids := map[string]token.Pos{}
	for _, w := range b.Model.Workflows {
		ids[w.GoName] = w.Pos()
		if w.Graph != nil && len(w.Params) > 0 || len(w.Params) > 1 {
			ids[name.Input(w.GoName)] = w.Pos()
		}
		if w.Graph != nil && len(w.Graph.Results) > 0 {
			ids[name.Result(w.GoName)] = w.Pos()
		}
	}
	return ids
}
