package model

import (
	"fmt"
	"go/token"
)

// singleton checks the expression of a singleton key, which must have an unambiguous text and may
// be constant.
func (b *builder) singleton(fn *Function) *Key {
	if !fn.Directive.Has("singleton") {
		return nil
	}
	if fn.Directive.Has("schedule") {
		b.report(fn.Directive.At("singleton"), fn.title()+" is a singleton, and is started by a schedule, whose runs have a workflow id of that",
			"remove singleton=: the schedule's Overlap says what a tick does that finds an active run")
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
