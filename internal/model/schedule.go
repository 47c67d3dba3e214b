package model

import "go/types"

// scheduled checks that a workflow with a schedule needs no input.
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
