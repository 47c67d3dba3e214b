package model

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"math"
)

// Fair contains the expressions of the fairness key of a workflow's runs and of its share.
type Fair struct {
	Key   *Key
	Share *Key // nil means a share of 1
}

// maxShare is the largest share of a fairness key. It equals store.MaxShare.
const maxShare = 100

// fair returns the fairness key and the share of a workflow, or nil if there are none or they are
// invalid.
func (b *builder) fair(fn *Function) *Fair {
	if !fn.Directive.Has("fair") {
		return nil
	}
	text := fn.Directive.Fair
	const fix = "write an expression over the parameters, as in fair=order.Tenant"
	k, overParams := b.expression(fn, text, "the fair key", func(pos token.Pos, what string) {
		b.report(pos, fmt.Sprintf("fair=%s %s", text.Value, what), fix)
	})
	switch {
	case k == nil:
		return nil
	case !overParams:
		b.report(text.Pos, "the fair key uses no parameter, so all runs have one share between them", fix)
		return nil
	case !b.textOf("fair", text, k.Info.Types[k.Expr]):
		return nil
	}
	f := &Fair{Key: k}
	if fn.Directive.Share.Value == "" {
		return f
	}
	if f.Share = b.share(fn); f.Share == nil {
		return nil
	}
	return f
}

// share returns the expression of a share, which must be an integer of at least 1.
func (b *builder) share(fn *Function) *Key {
	text := fn.Directive.Share
	wrong := func(pos token.Pos, what, fix string) {
		b.report(pos, fmt.Sprintf("the share %s %s", text.Value, what), fix)
	}
	k, _ := b.expression(fn, text, "the share", func(pos token.Pos, what string) {
		wrong(pos, what, "write a number, or an expression over the parameters, as in fair=order.Tenant:order.Weight")
	})
	if k == nil || !b.integer(text.Pos, k, wrong, "use an integer: a key with a share of 3 starts three runs for one of the others", "fair=order.Tenant:int(order.Weight)") {
		return nil
	}
	if tv := k.Info.Types[k.Expr]; tv.Value != nil {
		if n, exact := constant.Int64Val(constant.ToInt(tv.Value)); !exact || n < 1 || n > maxShare {
			wrong(text.Pos, fmt.Sprintf("is not from 1 to %d", maxShare), "write a number in that range, or none for 1")
			return nil
		}
	}
	return k
}

// integer reports a mistake unless the expression has an integer type whose values all fit into an
// int.
func (b *builder) integer(pos token.Pos, k *Key, wrong func(pos token.Pos, what, fix string), kind, conversion string) bool {
	tv := k.Info.Types[k.Expr]
	if !tv.IsValue() {
		wrong(pos, "is not a single value", "write an expression with one value")
		return false
	}
	basic, ok := tv.Type.Underlying().(*types.Basic)
	switch {
	case !ok || basic.Info()&types.IsInteger == 0:
		wrong(pos, fmt.Sprintf("has type %s, which is not a whole number", types.TypeString(tv.Type, types.RelativeTo(b.Types))), kind)
	case tv.Value == nil && (basic.Kind() == types.Uint || basic.Kind() == types.Uint64 || basic.Kind() == types.Uintptr):
		wrong(pos, fmt.Sprintf("has type %s, of which not all values are an int", types.TypeString(tv.Type, types.RelativeTo(b.Types))), "convert it, as in "+conversion)
	default:
		return true
	}
	return false
}

// priority returns the expression of a workflow's priority. The expression must be an integer and
// may be constant.
func (b *builder) priority(fn *Function) *Key {
	if !fn.Directive.Has("priority") {
		return nil
	}
	text := fn.Directive.Priority
	wrong := func(pos token.Pos, what, fix string) {
		b.report(pos, fmt.Sprintf("priority=%s %s", text.Value, what), fix)
	}
	k, _ := b.expression(fn, text, "the priority", func(pos token.Pos, what string) {
		wrong(pos, what, "write a number, or an expression over the parameters, as in priority=order.Rank")
	})
	if k == nil {
		return nil
	}
	if !b.integer(text.Pos, k, wrong, "use an integer: of two runs the one with the higher number is claimed first", "priority=int(order.Rank)") {
		return nil
	}
	if tv := k.Info.Types[k.Expr]; tv.Value != nil && !fits(tv.Value) {
		wrong(text.Pos, "does not fit into 32 bits", "use a smaller number")
		return nil
	}
	return k
}

func fits(v constant.Value) bool {
	n, exact := constant.Int64Val(constant.ToInt(v))
	return exact && n >= math.MinInt32 && n <= math.MaxInt32
}

// NeedsConversion reports whether the type of the expression differs from want, so that generated
// code must convert the value.
func (k *Key) NeedsConversion(want types.Type) bool {
	t := k.Info.Types[k.Expr].Type
	if basic, ok := t.(*types.Basic); ok && basic.Info()&types.IsUntyped != 0 {
		return false
	}
	return !types.Identical(t, want)
}
