package emit

import (
	"go/types"

	"github.com/dave/jennifer/jen"
	"github.com/flowgen/flowgen/internal/model"
	"github.com/flowgen/flowgen/internal/name"
)

// stepsVar declares the variable by which stand-ins and tools name steps.
func (e *emitter) stepsVar(f *jen.File) {
	f.Line()
	f.Commentf("// %s refers to the steps of this package, for stand-ins and tools.", e.model.StepsVar)
	var values []jen.Code
	fields := jen.StructFunc(func(g *jen.Group) {
		for _, s := range e.model.Steps {
			g.Id(s.GoName).Add(e.qual(shimPath, "Step")).Types(e.implType(s, true))
			values = append(values, jen.Id(s.GoName).Op(":").Id(name.Step(s.GoName)))
		}
	})
	f.Var().Id(e.model.StepsVar).Op("=").Add(fields).Custom(multiLine("{", "}"), values...)
}

func multiLine(open, closing string) jen.Options {
	return jen.Options{Open: open, Close: closing, Separator: ",", Multi: true}
}

// implType is the type of the user's function, with or without names.
func (e *emitter) implType(s *model.Step, named bool) *jen.Statement {
	ctx := e.contextName(&s.Function, nil)
	names := e.paramNames(&s.Function, ctx, nil)
	params := []jen.Code{e.qual("context", "Context")}
	if named {
		params[0] = jen.Id(ctx).Add(e.qual("context", "Context"))
	}
	for i := range s.Params {
		t := e.paramType(&s.Function, i)
		if named {
			t = jen.Id(names[i]).Add(t)
		}
		params = append(params, t)
	}
	return jen.Func().Params(params...).Add(e.results(s.Result))
}

// results are those of every function: (T, error), or error for nil.
func (e *emitter) results(t types.Type) *jen.Statement {
	if t == nil {
		return jen.Error()
	}
	return jen.Params(e.typ(t), jen.Error())
}

// paramType spells the type of a parameter in a parameter list.
func (e *emitter) paramType(fn *model.Function, i int) *jen.Statement {
	t := fn.Params[i].Type
	if slice, ok := t.(*types.Slice); ok && fn.Variadic && i == len(fn.Params)-1 {
		return jen.Op("...").Add(e.typ(slice.Elem()))
	}
	return e.typ(t)
}

// contextName is the user's name for the context, if there is one.
func (e *emitter) contextName(fn *model.Function, taken map[string]bool) string {
	if fn.Context != "" && fn.Context != "_" && !taken[fn.Context] {
		return fn.Context
	}
	avoid := make([]string, 0, len(fn.Params))
	for _, p := range fn.Params {
		avoid = append(avoid, p.Name)
	}
	for id := range taken {
		avoid = append(avoid, id)
	}
	return e.local("ctx", avoid...)
}

// paramNames are the user's names for the parameters, but where the body needs
// the name for something else.
func (e *emitter) paramNames(fn *model.Function, ctx string, taken map[string]bool) []string {
	all := map[string]bool{ctx: true}
	for _, p := range fn.Params {
		all[p.Name] = true
	}
	names := make([]string, len(fn.Params))
	for i, p := range fn.Params {
		names[i] = p.Name
		if taken[p.Name] {
			names[i] = free(p.Name+"Value", e.model.Declared, keys(all, taken))
			all[names[i]] = true
		}
	}
	return names
}

func keys(sets ...map[string]bool) []string {
	var all []string
	for _, set := range sets {
		for id := range set {
			all = append(all, id)
		}
	}
	return all
}

// step declares the durable counterpart of a step, its arguments, and its
// description.
func (e *emitter) step(f *jen.File, s *model.Step) {
	e.counterpart(f, s)
	if len(s.Params) > 0 {
		f.Line()
		f.Type().Id(name.Args(s.GoName)).Add(e.fields(s.Params))
	}
	f.Line()
	f.Var().Id(name.Step(s.GoName)).Op("=").Add(e.qual(shimPath, "NewStep")).Call(
		jen.Lit(s.Stored), e.policy(s), e.adapter(s))
}

// fields declares the struct that is stored: one JSON object by parameter name.
func (e *emitter) fields(params []model.Param) *jen.Statement {
	return jen.StructFunc(func(g *jen.Group) {
		for _, p := range params {
			g.Id(p.Field).Add(e.typ(p.Type)).Op(quoteTag(`json:"` + p.Name + `"`))
		}
	})
}

// counterpart declares the function that workflow code calls.
func (e *emitter) counterpart(f *jen.File, s *model.Step) {
	taken := spells(s.Result, e.model.Types)
	taken[name.Step(s.GoName)], taken[name.Args(s.GoName)] = true, true
	ctx := e.contextName(&s.Function, taken)
	names := e.paramNames(&s.Function, ctx, taken)
	params := []jen.Code{jen.Id(ctx).Add(e.qual(workflowPath, "Context"))}
	values := make([]jen.Code, len(names))
	for i, n := range names {
		params = append(params, jen.Id(n).Add(e.paramType(&s.Function, i)))
		values[i] = jen.Id(n)
	}
	call, args := "Call", []jen.Code{jen.Id(ctx), jen.Id(name.Step(s.GoName))}
	if s.Key != nil {
		call = "CallKey"
		args = append(args, e.qual(shimPath, "Key").Call(e.key(s, names)))
	}
	if len(values) == 0 {
		args = append(args, jen.Struct().Values())
	} else {
		args = append(args, jen.Id(name.Args(s.GoName)).Values(values...))
	}
	shim := e.qual(shimPath, call)
	if s.Result == nil {
		shim = e.qual(shimPath, call+"Err")
	} else {
		shim.Types(e.typ(s.Result))
	}
	f.Line()
	e.doc(f, &s.Function)
	f.Func().Id(s.GoName).Params(params...).Add(e.results(s.Result)).Block(jen.Return(shim.Call(args...)))
}

// adapter turns the stored arguments into a call of the implementation, or of
// what stands in for it.
func (e *emitter) adapter(s *model.Step) *jen.Statement {
	f, ctx, a := e.local("f"), e.local("ctx"), e.local("a")
	args := []jen.Code{jen.Id(ctx)}
	for i, p := range s.Params {
		arg := jen.Id(a).Dot(p.Field)
		if s.Variadic && i == len(s.Params)-1 {
			arg.Op("...")
		}
		args = append(args, arg)
	}
	argsParam := jen.Id(a).Id(name.Args(s.GoName))
	if len(s.Params) == 0 {
		argsParam = jen.Id("_").Struct()
	}
	handle := "Handle"
	if s.Result == nil {
		handle = "HandleErr"
	}
	return jen.Func().Params(jen.Id(f).Add(e.implType(s, false))).Add(e.qual(shimPath, "Handler")).Block(
		jen.Return(e.qual(shimPath, handle).Call(
			jen.Func().Params(jen.Id(ctx).Add(e.qual("context", "Context")), argsParam).Add(e.results(s.Result)).Block(
				jen.Return(jen.Id(f).Call(args...)),
			))))
}
