package emit

import (
	"go/types"

	"github.com/dave/jennifer/jen"
	"github.com/flowgen/flowgen/internal/model"
	"github.com/flowgen/flowgen/internal/name"
)

// stepsVar writes the variable through which test stubs and tools refer to steps.
func (e *emitter) stepsVar(f *jen.File) {
	f.Line()
	f.Commentf("// %s refers to the steps of this package, for stand-ins and tools.", e.model.StepsVar)
	var values []jen.Code
	fields := jen.StructFunc(func(g *jen.Group) {
		for _, s := range e.model.Steps {
			g.Id(s.GoName).Add(e.qual(shimPath, "Step")).Types(jen.Id(name.Func(s.GoName)))
			values = append(values, jen.Id(s.GoName).Op(":").Id(name.Step(s.GoName)))
		}
	})
	f.Var().Id(e.model.StepsVar).Op("=").Add(group(fields, "{", "}", true, values))
}

// implType writes an alias for the type of the user's function. Because it is an alias, a stub can
// be a function of any named type.
func (e *emitter) implType(f *jen.File, s *model.Step) {
	ctx := e.contextName(&s.Function, nil)
	names := e.paramNames(&s.Function, ctx, nil)
	list := []jen.Code{jen.Id(ctx).Add(e.qual("context", "Context"))}
	for i := range s.Params {
		list = append(list, jen.Id(names[i]).Add(e.paramType(&s.Function, i)))
	}
	if s.Machine != nil {
		list, _ = e.machineParams(s, e.receiverOf(s))
	}
	f.Line()
	f.Add(lay(0, 2, func(layout int) *jen.Statement {
		return params(jen.Type().Id(name.Func(s.GoName)).Op("=").Func(), layout == 1, list).Add(e.stepResults(s))
	}))
}

// results returns the result list of a function with a result of type t. The list is (T, error), or
// error if t is nil.
func (e *emitter) results(t types.Type) *jen.Statement {
	if t == nil {
		return jen.Error()
	}
	return jen.Params(e.typ(t), jen.Error())
}

// paramType returns the type of a parameter in a parameter list.
func (e *emitter) paramType(fn *model.Function, i int) *jen.Statement {
	t := fn.Params[i].Type
	if slice, ok := t.(*types.Slice); ok && fn.Variadic && i == len(fn.Params)-1 {
		return jen.Op("...").Add(e.typ(slice.Elem()))
	}
	return e.typ(t)
}

// contextName returns the user's name for the context parameter, or a generated name if the user's
// name cannot be used.
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

// paramNames returns the user's names for the parameters. It replaces a name that the generated
// body uses for something else.
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

// step writes the durable counterpart of a step, the type of its implementation, its arguments, and
// its description.
func (e *emitter) step(f *jen.File, s *model.Step) {
	if s.Graph == nil && s.Machine == nil {
		e.counterpart(f, s)
	}
	e.implType(f, s)
	if len(s.Params) > 0 {
		f.Line()
		f.Type().Id(name.Args(s.GoName)).Add(e.fields(s.Params))
	}
	f.Line()
	f.Add(lay(0, 2, func(layout int) *jen.Statement {
		return params(jen.Var().Id(name.Step(s.GoName)).Op("=").Add(e.qual(shimPath, "NewStep")), layout == 1,
			[]jen.Code{jen.Lit(s.Stored), e.policy(s), e.adapter(s)})
	}))
}

// fields writes the stored struct. Its JSON is an object with the stored names of the parameters.
func (e *emitter) fields(params []model.Param) *jen.Statement {
	return jen.StructFunc(func(g *jen.Group) {
		for _, p := range params {
			g.Id(p.Field).Add(e.typ(p.Type)).Op(quoteTag(`json:"` + p.Wire + `"`))
		}
	})
}

// counterpart writes the function that workflow code calls to execute a step.
func (e *emitter) counterpart(f *jen.File, s *model.Step) {
	taken := spells(s.Result, e.model.Types)
	taken[name.Step(s.GoName)], taken[name.Args(s.GoName)] = true, true
	ctx := e.contextName(&s.Function, taken)
	names := e.paramNames(&s.Function, ctx, taken)
	list := []jen.Code{jen.Id(ctx).Add(e.qual(workflowPath, "Context"))}
	for i, n := range names {
		list = append(list, jen.Id(n).Add(e.paramType(&s.Function, i)))
	}
	f.Line()
	e.doc(f, &s.Function, s.Receiver)
	f.Add(lay(0, 2*callLayouts, func(layout int) *jen.Statement {
		return params(jen.Func().Id(s.GoName), layout >= callLayouts, list).Add(e.results(s.Result)).
			Block(jen.Return(e.call(s, ctx, names, layout%callLayouts)))
	}))
}

// callLayouts is the number of layouts of call. They break no line, the step arguments, the call
// arguments, or both.
const callLayouts = 4

// call writes the statement that executes the step s in its generated durable counterpart.
func (e *emitter) call(s *model.Step, ctx string, names []string, layout int) *jen.Statement {
	called, args := "Call", []jen.Code{jen.Id(ctx), jen.Id(name.Step(s.GoName))}
	if s.Key != nil {
		called = "CallKey"
		args = append(args, e.qual(shimPath, "Key").Call(e.key(s.Key, s.Params, func(i int) jen.Code { return jen.Id(names[i]) })))
	}
	values := make([]jen.Code, len(names))
	for i, n := range names {
		values[i] = jen.Id(n)
		if layout%2 == 1 {
			values[i] = jen.Id(s.Params[i].Field).Op(":").Id(n)
		}
	}
	if len(values) == 0 {
		args = append(args, jen.Struct().Values())
	} else {
		args = append(args, group(jen.Id(name.Args(s.GoName)), "{", "}", layout%2 == 1, values))
	}
	shim := e.qual(shimPath, called)
	if s.Result == nil {
		shim = e.qual(shimPath, called+"Err")
	} else {
		shim.Types(e.typ(s.Result))
	}
	return params(shim, layout >= 2, args)
}

// adapter writes a function that calls the implementation or its stub with the stored arguments.
func (e *emitter) adapter(s *model.Step) *jen.Statement {
	f, ctx, a := e.local("f"), e.local("ctx"), e.local("a")
	takes, args := []jen.Code{jen.Id(ctx).Add(e.qual("context", "Context"))}, []jen.Code{jen.Id(ctx)}
	if s.Machine != nil {
		m := e.local("m")
		takes, args = append(takes, jen.Id(m).Op("*").Id(s.Machine.Type.Name())), append(args, jen.Id(m))
	}
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
	switch {
	case s.Machine != nil:
		handle = "HandleMachine"
	case s.Result == nil:
		handle = "HandleErr"
	}
	call := lay(3*tabWidth+len("return "), 2, func(layout int) *jen.Statement {
		return params(jen.Id(f), layout == 1, args)
	})
	takes = append(takes, argsParam)
	handled := lay(2*tabWidth, 2, func(layout int) *jen.Statement {
		wide := layout == 1 && s.Machine != nil
		return jen.Return(e.qual(shimPath, handle).Call(params(jen.Func(), wide, takes).Add(e.stepResults(s)).Block(jen.Return(call))))
	})
	return jen.Func().Params(jen.Id(f).Id(name.Func(s.GoName))).Add(e.qual(shimPath, "Handler")).Block(handled)
}
