package emit

import (
	"go/types"

	"github.com/dave/jennifer/jen"
	"github.com/flowgen/flowgen/internal/model"
	"github.com/flowgen/flowgen/internal/name"
)

// workflow writes the definition of a workflow. The definition does not refer to the
// implementation, because a workflow that starts itself would cause an initialization cycle.
// Register binds the definition to the implementation.
func (e *emitter) workflow(f *jen.File, w *model.Workflow) {
	f.Line()
	e.doc(f, &w.Function, nil)
	if w.Machine != nil {
		f.Comment("//")
		for _, line := range stateDiagram(w.Machine) {
			f.Comment("//\t" + line)
		}
	}
	e.definition(f, w)
	if w.Machine != nil {
		e.constructors(f, w.Machine)
	}
}

// definition writes the variable that callers use to start runs, and the generated input and result
// types.
func (e *emitter) definition(f *jen.File, w *model.Workflow) {
	param := ""
	if len(w.Params) == 1 && w.Graph == nil && w.Batch == nil && !isNone(w.Params[0].Type) {
		param = w.Params[0].Wire
	}
	f.Add(lay(0, 2, func(layout int) *jen.Statement {
		made := jen.Var().Id(w.GoName).Op("=").Add(e.qual(shimPath, "NewWorkflow")).Types(e.in(w), e.out(w))
		return params(made, layout == 1, []jen.Code{jen.Lit(w.Stored), jen.Lit(param), e.workflowPolicy(w)})
	}))
	if len(w.Params) > 1 || w.Graph != nil && len(w.Params) > 0 {
		f.Line()
		f.Commentf("// %s is the input of %s.", name.Input(w.GoName), w.GoName)
		f.Type().Id(name.Input(w.GoName)).Add(e.fields(w.Params))
	}
	if w.Graph != nil && len(w.Graph.Results) > 0 {
		f.Line()
		f.Commentf("// %s has the results of %s.", name.Result(w.GoName), w.GoName)
		f.Type().Id(name.Result(w.GoName)).Add(e.fields(w.Graph.Results))
	}
}

func (e *emitter) in(w *model.Workflow) *jen.Statement {
	switch {
	case len(w.Params) == 0:
		return e.qual(workflowPath, "None")
	case len(w.Params) == 1 && w.Graph == nil:
		return e.typ(w.Params[0].Type)
	}
	return jen.Id(name.Input(w.GoName))
}

func (e *emitter) out(w *model.Workflow) *jen.Statement {
	if w.Result == nil {
		return e.qual(workflowPath, "None")
	}
	return e.typ(w.Result)
}

// bindable returns the implementation of w as a function with one input and one result.
func (e *emitter) bindable(w *model.Workflow, taken []string) *jen.Statement {
	if w.Graph != nil {
		return jen.Id(name.Graph(w.GoName))
	}
	_, named := w.Batch.(*types.Named)
	if len(w.Params) == 1 && w.Result != nil && !w.Variadic && !named {
		return jen.Id(w.Impl)
	}
	ctx, in := e.local("ctx", taken...), e.local("in", taken...)
	args := []jen.Code{jen.Id(ctx)}
	for _, p := range w.Params {
		arg := jen.Id(in)
		if len(w.Params) > 1 {
			arg.Dot(p.Field)
		}
		args = append(args, arg)
	}
	if w.Variadic {
		args[len(args)-1].(*jen.Statement).Op("...")
	}
	if len(w.Params) == 0 {
		in = "_"
	}
	call := jen.Id(w.Impl).Call(args...)
	body := jen.Return(call)
	if w.Result == nil {
		body = jen.Return(e.qual(workflowPath, "None").Values(), call)
	}
	takes := e.in(w)
	if w.Batch != nil {
		takes = jen.Index().Add(takes)
	}
	return jen.Func().Params(jen.Id(ctx).Add(e.qual(workflowPath, "Context")), jen.Id(in).Add(takes)).
		Params(e.out(w), jen.Error()).Block(body)
}
