package model

import (
	"fmt"
	"go/token"
	"go/types"
)

// collect returns the key of debounce= or batch=, whose starts share a run. It returns nil if the
// directive has no key, or an invalid one.
func (b *builder) collect(fn *Function) *Key {
	d := fn.Directive
	option := "debounce"
	if !d.Has(option) {
		if option = "batch"; !d.Has(option) {
			return nil
		}
	}
	for _, other := range []struct{ name, why, fix string }{
		{"batch", "its starts are debounced, which keeps the last one, and batched, which keeps all", "keep one of debounce= and batch="},
		{"singleton", "its starts share a run until that begins, and it has one active run", "keep one of singleton= and " + option + "="},
		{"schedule", "its starts share a run, and it is started by a schedule", "remove " + option + "=, or start it from a step of the scheduled workflow"},
		{"startwithin", "its starts share a run, which waits for more of them", "remove startwithin=: " + option + "= needs the time to wait"},
	} {
		if other.name != option && d.Has(other.name) {
			b.report(d.At(other.name), fn.title()+": "+other.why, other.fix)
			return nil
		}
	}
	text := d.Collect
	if text.Value == "" {
		return nil
	}
	k, _ := b.expression(fn, text, "the key of "+option, func(pos token.Pos, what string) {
		b.report(pos, fmt.Sprintf("%s=%s %s", option, text.Value, what), "write an expression over the parameters, as in "+example(option))
	})
	if k == nil || !b.textOf(option, text, k.Info.Types[k.Expr]) {
		return nil
	}
	return k
}

func example(option string) string {
	if option == "batch" {
		return "batch=100,5s,email.Tenant, where the parameter is one element"
	}
	return "debounce=doc.ID,10s"
}

// batched changes the parameter of a workflow with batch= from a slice to one element. The
// generated Start function and the expressions of the directive use the element. The result is
// false if the parameter is not a slice.
func (b *builder) batched(fn *Function) bool {
	d := fn.Directive
	if !d.Has("batch") {
		return true
	}
	var list *types.Slice
	if len(fn.Params) == 1 {
		list, _ = types.Unalias(fn.Params[0].Type).Underlying().(*types.Slice)
	}
	if list == nil {
		b.report(d.At("batch"), "workflow "+fn.Impl+" does not take a slice, which batch= gives it", "take the inputs of all starts as one slice behind the context")
		return false
	}
	fn.Batch = fn.Params[0].Type
	p := &fn.Params[0]
	p.Type = list.Elem()
	if p.Name == "" || p.Name == "_" {
		return true
	}
	pos := fn.scope
	p.Var = types.NewVar(p.Var.Pos(), b.Types, p.Name, p.Type)
	types.NewScope(b.Types.Scope().Innermost(pos), pos, pos+1, "one element of a batch").Insert(p.Var)
	return true
}
