package emit

import (
	"go/types"
	"slices"

	"github.com/dave/jennifer/jen"
	"github.com/flowgen/flowgen/internal/model"
	"github.com/flowgen/flowgen/internal/name"
)

// nameReceivers chooses the parameters of Register.
func (e *emitter) nameReceivers() {
	taken := slices.Clone(invented)
	for _, r := range e.model.Receivers {
		id := name.Unexported(r.Type.Name())
		if e.model.Declared[id] || name.Reserved(id) || slices.Contains(taken, id) {
			id = free(id+"Receiver", e.model.Declared, taken)
		}
		e.receivers[r] = id
		taken = append(taken, id)
		e.imports.taken[id] = true
	}
}

// register declares the function that makes everything known to a worker.
func (e *emitter) register(f *jen.File) {
	r := e.local("r")
	params := []jen.Code{jen.Id(r).Add(e.qual(workflowPath, "Registrar"))}
	for _, recv := range e.model.Receivers {
		params = append(params, jen.Id(e.receivers[recv]).Op(star(recv)).Id(recv.Type.Name()))
	}
	f.Line()
	f.Commentf("// %s makes the workflows and steps of this package known to %s.", e.model.Register, r)
	f.Func().Id(e.model.Register).Params(params...).BlockFunc(func(g *jen.Group) {
		for _, recv := range e.model.Receivers {
			g.Add(e.receiver(r, recv))
		}
		for _, s := range e.model.Steps {
			g.Id(name.Step(s.GoName)).Dot("Bind").Call(jen.Id(r), e.implementation(s))
		}
		for _, w := range e.model.Workflows {
			g.Add(e.qual(shimPath, "BindWorkflow")).Call(jen.Id(r), jen.Id(w.GoName), e.bindable(w, e.parameters()))
		}
	})
}

func (e *emitter) parameters() []string {
	var ids []string
	for _, recv := range e.model.Receivers {
		ids = append(ids, e.receivers[recv])
	}
	return ids
}

func star(r *model.Receiver) string {
	if r.Pointer {
		return "*"
	}
	return ""
}

// receiver declares which steps need the receiver, and whether it is there.
func (e *emitter) receiver(r string, recv *model.Receiver) *jen.Statement {
	id := e.receivers[recv]
	missing := jen.False()
	if recv.Pointer || canBeNil(recv.Type.Type()) {
		missing = jen.Id(id).Op("==").Nil()
	}
	args := []jen.Code{jen.Id(r), jen.Lit(id + " " + star(recv) + recv.Type.Name()), missing}
	for _, s := range recv.Steps {
		args = append(args, jen.Id(name.Step(s.GoName)))
	}
	return e.qual(shimPath, "Receiver").Call(args...)
}

func canBeNil(t types.Type) bool {
	switch t.Underlying().(type) {
	case *types.Map, *types.Slice, *types.Signature, *types.Chan, *types.Interface, *types.Pointer:
		return true
	}
	return false
}

// implementation is the user's function or method. A method with a value
// receiver is called through a closure where Register takes a pointer: a method
// value would look into a missing receiver at once.
func (e *emitter) implementation(s *model.Step) *jen.Statement {
	if s.Receiver == nil {
		return jen.Id(s.Impl)
	}
	id := e.receivers[s.Receiver]
	if !s.ByValue || !s.Receiver.Pointer {
		return jen.Id(id).Dot(s.Impl)
	}
	taken := map[string]bool{id: true}
	ctx := e.contextName(&s.Function, taken)
	names := e.paramNames(&s.Function, ctx, taken)
	params := []jen.Code{jen.Id(ctx).Add(e.qual("context", "Context"))}
	args := []jen.Code{jen.Id(ctx)}
	for i, n := range names {
		params = append(params, jen.Id(n).Add(e.paramType(&s.Function, i)))
		arg := jen.Id(n)
		if s.Variadic && i == len(names)-1 {
			arg.Op("...")
		}
		args = append(args, arg)
	}
	return jen.Func().Params(params...).Add(e.results(s.Result)).Block(
		jen.Return(jen.Id(id).Dot(s.Impl).Call(args...)))
}
