package emit

import (
	"go/types"
	"maps"
	"slices"

	"github.com/dave/jennifer/jen"
	"github.com/flowgen/flowgen/internal/model"
	"github.com/flowgen/flowgen/internal/name"
)

// nameReceivers chooses names for the receivers among the parameters of Register.
func (e *emitter) nameReceivers() {
	taken := slices.Clone(invented)
	spelled := e.spelledByRegister()
	for _, r := range e.model.Receivers {
		id := name.Unexported(r.Type.Name())
		// A parameter "shop *shop" is valid unless the body refers to the type shop.
		hides := e.model.Declared[id] && (id != r.Type.Name() || spelled[id])
		if hides || name.Reserved(id) || slices.Contains(taken, id) {
			id = free(id+"Receiver", e.model.Declared, taken)
		}
		e.receivers[r] = id
		taken = append(taken, id)
		e.imports.taken[id] = true
	}
}

// spelledByRegister returns the package-level names that the body of Register refers to.
func (e *emitter) spelledByRegister() map[string]bool {
	ids := make(map[string]bool)
	note := func(fn *model.Function) {
		ids[fn.GoName], ids[fn.Impl] = true, true
		for _, p := range fn.Params {
			maps.Copy(ids, spells(p.Type, e.model.Types))
		}
		maps.Copy(ids, spells(fn.Result, e.model.Types))
	}
	for _, w := range e.model.Workflows {
		note(&w.Function)
		ids[name.Input(w.GoName)] = true
	}
	for _, w := range e.model.Workflows {
		if w.Machine != nil {
			ids[name.Next(w.GoName)] = true
		}
	}
	for _, s := range e.model.Steps {
		if s.Machine != nil {
			ids[name.Args(s.GoName)] = true
			maps.Copy(ids, spells(s.Machine.Result, e.model.Types))
		}
		ids[name.Step(s.GoName)] = true
		if s.Receiver == nil {
			ids[s.Impl] = true
		} else if s.ByValue {
			note(&s.Function)
		}
	}
	return ids
}

// register writes Register, which registers all workflows, steps and errors with a worker.
func (e *emitter) register(f *jen.File) {
	r := e.local("r")
	list := []jen.Code{jen.Id(r).Add(e.qual(workflowPath, "Registrar"))}
	for _, recv := range e.model.Receivers {
		list = append(list, jen.Id(e.receivers[recv]).Op(star(recv)).Id(recv.Type.Name()))
	}
	list = append(list, e.dependencyParams()...)
	f.Line()
	f.Commentf("// %s makes the workflows and steps of this package known to %s.", e.model.Register, r)
	f.Comment("//")
	f.Comment("// If it does not compile, a signature has changed: run go generate.")
	f.Add(lay(len(" {"), 2, func(layout int) *jen.Statement {
		return params(jen.Func().Id(e.model.Register), layout == 1, list)
	})).BlockFunc(func(g *jen.Group) {
		for _, recv := range e.model.Receivers {
			g.Add(e.receiver(r, recv))
		}
		makers := e.dependent(g, r)
		for _, s := range e.model.Steps {
			if s.Machine != nil {
				g.Add(e.bindStepOfMachine(r, s))
				continue
			}
			g.Id(name.Step(s.GoName)).Dot("Bind").Call(jen.Id(r), e.implementation(s, makers))
		}
		for _, w := range e.model.Workflows {
			if w.Machine != nil {
				g.Add(e.bindMachine(r, w))
				continue
			}
			if w.Graph != nil {
				g.Add(e.bindGraph(r, w))
				continue
			}
			bind := "BindWorkflow"
			if w.Batch != nil {
				bind = "BindBatch"
			}
			g.Add(e.qual(shimPath, bind)).Call(jen.Id(r), jen.Id(w.GoName), e.bindable(w, e.parameters()))
		}
	})
}

func (e *emitter) parameters() []string {
	var ids []string
	for _, recv := range e.model.Receivers {
		ids = append(ids, e.receivers[recv])
	}
	for _, d := range e.model.Dependencies {
		ids = append(ids, e.dependencies[d])
	}
	return ids
}

func star(r *model.Receiver) string {
	if r.Pointer {
		return "*"
	}
	return ""
}

// receiver writes the list of steps that need the receiver, and whether the caller passed one.
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
	return lay(tabWidth, 2, func(layout int) *jen.Statement {
		return params(e.qual(shimPath, "Receiver"), layout == 1, args)
	})
}

func canBeNil(t types.Type) bool {
	switch t.Underlying().(type) {
	case *types.Map, *types.Slice, *types.Signature, *types.Chan, *types.Interface, *types.Pointer:
		return true
	}
	return false
}

// implementation returns an expression for the user's function or method. A method with a value
// receiver is called in a closure if Register takes a pointer, because evaluating a method value
// would dereference a nil pointer immediately.
func (e *emitter) implementation(s *model.Step, makers map[*model.Graph]string) *jen.Statement {
	if s.Graph != nil {
		return e.onFreshStruct(s, makers[s.Graph])
	}
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
	list := []jen.Code{jen.Id(ctx).Add(e.qual("context", "Context"))}
	args := []jen.Code{jen.Id(ctx)}
	for i, n := range names {
		list = append(list, jen.Id(n).Add(e.paramType(&s.Function, i)))
		arg := jen.Id(n)
		if s.Variadic && i == len(names)-1 {
			arg.Op("...")
		}
		args = append(args, arg)
	}
	indent := tabWidth + len(name.Step(s.GoName)+".Bind(r, ")
	return lay(indent, 2, func(layout int) *jen.Statement {
		return params(jen.Func(), layout == 1, list).Add(e.results(s.Result)).Block(
			jen.Return(params(jen.Id(id).Dot(s.Impl), layout == 1, args)))
	})
}
