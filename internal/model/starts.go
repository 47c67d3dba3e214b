package model

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
)

// starts checks the options that determine how starts of a workflow become runs, and when the runs
// begin.
func (b *builder) starts(w *Workflow) {
	fn := &w.Function
	w.Priority, w.Singleton, w.Collect, w.Fair = b.priority(fn), b.singleton(fn), b.collect(fn), b.fair(fn)
	b.sharedKeys(w)
	if d := fn.Directive; d.StartWithin > 0 && d.Timeout > 0 && d.StartWithin >= d.Timeout {
		b.report(d.At("startwithin"), fmt.Sprintf("%s: startwithin=%s is not below timeout=%s, which ends the run before", fn.title(), d.StartWithin, d.Timeout),
			"raise timeout=, or lower startwithin=")
	}
}

// sharedKeys reports limit keys and fairness keys that may differ between starts that share a run.
// A run can have only one such key. The key of debounce= or batch= is equal for all these starts.
func (b *builder) sharedKeys(w *Workflow) {
	d := w.Directive
	option := "batch"
	if d.Has("debounce") {
		option = "debounce"
	}
	if !d.Has(option) || d.Collect.Value != "" && w.Collect == nil { // without the option, or after a mistake in it
		return
	}
	if len(w.Uses) == len(d.Uses) {
		for i, use := range w.Uses {
			if use.Key != nil && !b.isShared(w, use.Key) {
				name := use.Limit.Name() + "(" + use.Key.Text + ")"
				b.report(d.Uses[i].Key.Pos, fmt.Sprintf("%s: uses=%s may be another key for each of the starts that share a run", w.title(), name), sharedFix(option, use.Key.Text))
			}
		}
	}
	if w.Fair == nil {
		return
	}
	if !b.isShared(w, w.Fair.Key) {
		b.report(d.Fair.Pos, fmt.Sprintf("%s: fair=%s may be another key for each of the starts that share a run", w.title(), w.Fair.Key.Text), sharedFix(option, w.Fair.Key.Text))
	} else if w.Fair.Share != nil && !b.isShared(w, w.Fair.Share) {
		b.report(d.Share.Pos, fmt.Sprintf("%s: the share %s may be another one for each of the starts that share a run", w.title(), w.Fair.Share.Text), "write a number")
	}
}

func sharedFix(option, text string) string {
	if option == "batch" {
		return "give it the key of batch=, as in batch=100,5s," + text + ", or a constant"
	}
	return "give it the key of debounce=, as in debounce=" + text + ",10s, or a constant"
}

// isShared reports whether an expression has the same value for all starts that share a run. This
// holds if the expression is the key of debounce= or batch=, or contains no parameter.
func (b *builder) isShared(w *Workflow, k *Key) bool {
	if w.Collect != nil && types.ExprString(w.Collect.Expr) == types.ExprString(k.Expr) {
		return true
	}
	shared := true
	ast.Inspect(k.Expr, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return shared
		}
		for _, p := range w.Params {
			v, isVar := k.Info.Uses[id].(*types.Var)
			shared = shared && !(isVar && v == p.Var)
		}
		return shared
	})
	return shared
}

// scheduled checks that a workflow with schedule= has no parameters that a start must provide.
func (b *builder) scheduled(fn *Function) {
	if !fn.Directive.Has("schedule") {
		return
	}
	if len(fn.Params) == 0 {
		return
	}
	if len(fn.Params) == 1 && types.TypeString(types.Unalias(fn.Params[0].Type), nil) == workflowPath+".None" {
		return
	}
	b.report(fn.Directive.At("schedule"), fn.title()+" takes an input, and its schedule has none to give",
		"remove schedule= and call "+fn.GoName+".Schedule with the input, or take none")
}

// singleton returns the expression of a singleton key. It must have an unambiguous text and may be
// constant.
func (b *builder) singleton(fn *Function) *Key {
	if !fn.Directive.Has("singleton") {
		return nil
	}
	if fn.Directive.Has("schedule") {
		b.report(fn.Directive.At("singleton"), fn.title()+" is a singleton, and is started by a schedule, whose runs have a workflow id of that",
			"remove singleton=: the schedule's Overlap decides what a tick does that finds an active run")
		return nil
	}
	text := fn.Directive.Singleton
	k, _ := b.expression(fn, text, "the key of the singleton", func(pos token.Pos, what string) {
		b.report(pos, fmt.Sprintf("singleton=%s %s", text.Value, what), "write an expression over the parameters, as in singleton=order.ID")
	})
	if k == nil || !b.textOf("singleton", text, k.Info.Types[k.Expr]) {
		return nil
	}
	return k
}
