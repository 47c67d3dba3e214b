package model

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"math"
)

// priority checks the expression of a workflow's priority, which must be an integer and may be
// constant.
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

// NeedsConversion reports whether generated code must convert the value of the expression to want,
// because its type differs.
func (k *Key) NeedsConversion(want types.Type) bool {
	t := k.Info.Types[k.Expr].Type
	if basic, ok := t.(*types.Basic); ok && basic.Info()&types.IsUntyped != 0 {
		return false
	}
	return !types.Identical(t, want)
}
