package emit

import (
	"go/types"
	"slices"

	"github.com/dave/jennifer/jen"
	"github.com/flowgen/flowgen/internal/model"
	"github.com/flowgen/flowgen/internal/name"
)

// nameDependencies chooses names for the parameters of Register from which struct fields are set. A
// dependency that has the name and type of a receiver shares the parameter of the receiver.
func (e *emitter) nameDependencies() {
	taken := append(slices.Clone(invented), keys(e.spelledByRegister())...)
	for _, id := range e.receivers {
		taken = append(taken, id)
	}
	for _, d := range e.model.Dependencies {
		if r := e.sameAs(d); r != nil {
			e.dependencies[d] = e.receivers[r]
			continue
		}
		id := d.Field
		if name.Reserved(id) || slices.Contains(taken, id) {
			id = free(id+"Dependency", e.model.Declared, taken)
		}
		e.dependencies[d] = id
		taken = append(taken, id)
		e.imports.taken[id] = true
	}
}

// sameAs returns the receiver that shares its parameter with d, or nil.
func (e *emitter) sameAs(d *model.Dependency) *model.Receiver {
	for r, id := range e.receivers {
		if id == d.Field && r.Is(d.Type) {
			return r
		}
	}
	return nil
}

// own returns the dependencies that share no parameter with a receiver.
func (e *emitter) own() []*model.Dependency {
	return slices.DeleteFunc(slices.Clone(e.model.Dependencies), func(d *model.Dependency) bool { return e.sameAs(d) != nil })
}

func (e *emitter) dependencyParams() (list []jen.Code) {
	for _, d := range e.own() {
		list = append(list, jen.Id(e.dependencies[d]).Add(e.typ(d.Type)))
	}
	return list
}

// dependent writes the declarations that the body of Register needs for the dependencies of steps.
// It also writes functions that create the structs of graphs, and returns the names of these
// functions.
func (e *emitter) dependent(g *jen.Group, r string) map[*model.Graph]string {
	for _, d := range e.own() {
		if !canBeNil(d.Type) {
			continue
		}
		id := e.dependencies[d]
		args := []jen.Code{jen.Id(r), jen.Lit(id + " " + types.TypeString(d.Type, qualified(e.model.Types))), jen.Id(id).Op("==").Nil()}
		for _, s := range d.Steps {
			args = append(args, jen.Id(name.Step(s.GoName)))
		}
		g.Add(lay(tabWidth, 2, func(layout int) *jen.Statement { return params(e.qual(shimPath, "Receiver"), layout == 1, args) }))
	}
	makers, taken := map[*model.Graph]string{}, slices.Concat(invented, e.parameters())
	for _, w := range e.model.Workflows {
		if w.Graph == nil {
			continue
		}
		id := free("new"+w.GoName, e.model.Declared, taken)
		makers[w.Graph] = id
		taken = append(taken, id)
		in := e.local("in", e.parameters()...)
		var list []jen.Code
		if len(w.Params) > 0 {
			list = append(list, jen.Id(in).Add(e.in(w)))
		}
		g.Id(id).Op(":=").Func().Params(list...).Op("*").Id(w.Graph.Type.Name()).Block(
			jen.Return(jen.Op("&").Add(e.structOf(w, jen.Id(in), e.dependencies))))
	}
	return makers
}

// qualified returns a qualifier that prints the package name before names of packages other than
// here.
func qualified(here *types.Package) types.Qualifier {
	return func(p *types.Package) string {
		if p == here {
			return ""
		}
		return p.Name()
	}
}

// onFreshStruct writes a function that calls a graph step on a new struct.
func (e *emitter) onFreshStruct(s *model.Step, maker string) *jen.Statement {
	taken := map[string]bool{maker: true}
	ctx := e.contextName(&s.Function, taken)
	names := e.paramNames(&s.Function, ctx, taken)
	list := []jen.Code{jen.Id(ctx).Add(e.qual("context", "Context"))}
	made, args := []jen.Code{}, []jen.Code{jen.Id(ctx)}
	for i, n := range names {
		list = append(list, jen.Id(n).Add(e.paramType(&s.Function, i)))
		arg := jen.Id(n)
		if s.Variadic && i == len(names)-1 {
			arg.Op("...")
		}
		if i == 0 && s.Graph.Input() != nil {
			made = append(made, arg)
			continue
		}
		args = append(args, arg)
	}
	return lay(tabWidth+len(name.Step(s.GoName)+".Bind(r, "), 2, func(layout int) *jen.Statement {
		return params(jen.Func(), layout == 1, list).Add(e.results(s.Result)).Block(
			jen.Return(params(jen.Id(maker).Call(made...).Dot(s.Impl), false, args)))
	})
}
