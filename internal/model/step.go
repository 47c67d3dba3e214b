package model

import (
	"go/ast"
	"go/types"
)

// step checks the additional requirements of a step and adds the step to the model.
func (b *builder) step(decl *ast.FuncDecl, fn *Function) {
	s := &Step{Function: *fn}
	if recv := fn.sig.Recv(); recv != nil {
		t := types.Unalias(recv.Type())
		pointer, isPointer := t.(*types.Pointer)
		if isPointer {
			t = types.Unalias(pointer.Elem())
		}
		named, ok := t.(*types.Named)
		if !ok {
			b.report(decl.Recv.Pos(), "step "+fn.Impl+" has a receiver that does not compile", "mend the errors of the compiler first")
			return
		}
		if s.Machine = b.machineOf(fn.sig); s.Machine == nil {
			s.named, s.ByValue = named.Obj(), !isPointer
		}
	}
	b.graphStep(s)
	fn = &s.Function
	if fn.Directive.Has("key") {
		s.Key = b.key(fn)
	}
	s.Uses = b.uses(fn)
	for _, ref := range fn.Directive.Fatal {
		if f, ok := b.fatal(fn, ref); ok {
			s.Fatal = append(s.Fatal, f)
		}
	}
	b.model.Steps = append(b.model.Steps, s)
	switch {
	case s.Machine != nil:
		b.stepOfMachine(decl, s)
	case fn.Directive.Has("catch"):
		b.report(fn.Directive.At("catch"), "step "+fn.Impl+" is no step of a machine, so that its failure leads nowhere", "remove catch=, and handle the error where the step is called")
	}
}
