package emit

import (
	"fmt"
	"slices"

	"github.com/dave/jennifer/jen"
	"github.com/flowgen/flowgen/internal/model"
	"github.com/flowgen/flowgen/internal/name"
)

const stepPath = runtimePath + "step"

// receiverOf returns a name for the machine that differs from the parameter names of the step.
func (e *emitter) receiverOf(s *model.Step, more ...string) string {
	taken := append([]string{e.contextName(&s.Function, nil)}, more...)
	for _, p := range s.Params {
		taken = append(taken, p.Name)
	}
	return e.local("m", taken...)
}

// machineParams returns the parameters of the implementation of a machine step. They are the
// context, the machine, and the parameters of the step.
func (e *emitter) machineParams(s *model.Step, m string) (list, args []jen.Code) {
	ctx := e.contextName(&s.Function, map[string]bool{m: true})
	list = []jen.Code{jen.Id(ctx).Add(e.qual("context", "Context")), jen.Id(m).Op("*").Id(s.Machine.Type.Name())}
	args = []jen.Code{jen.Id(ctx)}
	for i, n := range e.paramNames(&s.Function, ctx, map[string]bool{m: true}) {
		list = append(list, jen.Id(n).Add(e.paramType(&s.Function, i)))
		args = append(args, jen.Id(n))
	}
	return list, args
}

// bindStepOfMachine writes the binding of a step to a function that creates the machine with its
// dependencies and calls the method of the step.
func (e *emitter) bindStepOfMachine(r string, s *model.Step) *jen.Statement {
	m := e.receiverOf(s, e.parameters()...)
	list, args := e.machineParams(s, m)
	var body []jen.Code
	for _, d := range s.Machine.Needs {
		body = append(body, jen.Id(m).Dot(d.Field).Op("=").Id(e.dependencies[d]))
	}
	body = append(body, jen.Return(jen.Id(m).Dot(s.Impl).Call(args...)))
	return lay(tabWidth, 2, func(layout int) *jen.Statement {
		f := params(jen.Func(), layout == 1, list).Add(e.stepResults(s)).Block(body...)
		return jen.Id(name.Step(s.GoName)).Dot("Bind").Call(jen.Id(r), f)
	})
}

// bindMachine writes the binding of the definition to its steps.
func (e *emitter) bindMachine(r string, w *model.Workflow) *jen.Statement {
	m := w.Machine
	args := []jen.Code{jen.Id(r), jen.Id(w.GoName), jen.Lit(w.Directive.Max), e.begins(w)}
	for _, s := range m.Steps {
		args = append(args, e.machineStep(s))
	}
	return params(e.qual(shimPath, "BindMachine"), true, args)
}

// nobody returns the code of a nil machine. Code outside of a step calls constructors on a nil
// machine.
func nobody(m *model.Machine) *jen.Statement {
	return jen.Parens(jen.Op("*").Id(m.Type.Name())).Parens(jen.Nil())
}

// begins writes the function that maps the input of w to the first transition.
func (e *emitter) begins(w *model.Workflow) *jen.Statement {
	m := w.Machine
	first := nobody(m).Dot(name.Goto(m.Start.Impl))
	if len(m.Start.Params) == 1 {
		return first
	}
	in, args := "_", []jen.Code{}
	if len(m.Start.Params) > 0 {
		in = e.local("in")
	}
	for _, p := range m.Start.Params {
		args = append(args, jen.Id(in).Dot(p.Field))
	}
	return jen.Func().Params(jen.Id(in).Add(e.in(w))).Add(next(m)).Block(jen.Return(first.Call(args...)))
}

func (e *emitter) machineStep(s *model.Step) *jen.Statement {
	key, catch := jen.Nil(), jen.Nil()
	if s.Key != nil {
		a := e.local("a")
		key = jen.Func().Params(jen.Id(a).Add(e.argsType(s))).String().Block(
			jen.Return(e.qual(shimPath, "Key").Call(e.key(s.Key, s.Params, func(i int) jen.Code { return jen.Id(a).Dot(s.Params[i].Field) }))))
	}
	if by := s.Catch; by != nil {
		catch = nobody(s.Machine).Dot(name.Goto(by.Impl))
		if len(by.Params) == 0 {
			catch = jen.Func().Params(e.qual(stepPath, "Failure")).Add(next(s.Machine)).Block(jen.Return(catch.Call()))
		}
	}
	machine, result := jen.Id(s.Machine.Type.Name()), e.typ(s.Machine.Result)
	return lay(2*tabWidth, 2, func(layout int) *jen.Statement {
		return params(e.qual(shimPath, "NewMachineStep").Types(e.argsType(s), machine, result), layout == 1, []jen.Code{jen.Id(name.Step(s.GoName)), key, catch})
	})
}

// next returns the result type of the steps of machine m.
func next(m *model.Machine) *jen.Statement { return jen.Id(name.Next(m.GoName())) }

// stepResults returns the result list of the implementation of a step.
func (e *emitter) stepResults(s *model.Step) *jen.Statement {
	if s.Machine != nil {
		return jen.Params(next(s.Machine), jen.Error())
	}
	return e.results(s.Result)
}

// argsType returns the type of the arguments of a step.
func (e *emitter) argsType(s *model.Step) *jen.Statement {
	if len(s.Params) == 0 {
		return jen.Struct()
	}
	return jen.Id(name.Args(s.GoName))
}

// constructors writes the methods that steps call to choose the next transition.
func (e *emitter) constructors(f *jen.File, m *model.Machine) {
	f.Line()
	f.Commentf("// %s is where a step of [%s] leads.", name.Next(m.GoName()), m.Type.Name())
	f.Type().Add(next(m)).Op("=").Add(e.typ(m.Start.Result))
	method := func(id, comment string, list []jen.Code, value *jen.Statement) {
		f.Line()
		f.Comment("// " + id + " " + comment)
		f.Add(lay(0, 2, func(layout int) *jen.Statement {
			return params(jen.Func().Params(jen.Op("*").Id(m.Type.Name())).Id(id), layout == 1, list).Add(next(m)).Block(jen.Return(value))
		}))
	}
	made := func(function string) *jen.Statement {
		return e.qual(shimPath, function).Types(jen.Id(m.Type.Name()), e.typ(m.Result))
	}
	for _, s := range m.Steps {
		names := e.paramNames(&s.Function, "", map[string]bool{name.Step(s.GoName): true, name.Args(s.GoName): true})
		list, values := []jen.Code{}, []jen.Code{}
		for i, n := range names {
			list = append(list, jen.Id(n).Add(e.paramType(&s.Function, i)))
			values = append(values, jen.Id(s.Params[i].Field).Op(":").Id(n))
		}
		method(name.Goto(s.Impl), fmt.Sprintf("leads to [%s.%s].", m.Type.Name(), s.Impl), list,
			made("Goto").Call(jen.Id(name.Step(s.GoName)), e.argsType(s).Values(values...)))
		message := s.Message()
		if message == nil {
			continue
		}
		last := len(names) - 1
		from := e.local("from", names[:last]...)
		list = slices.Clone(list)
		list[last] = jen.Id(from).Add(e.qual(workflowPath, "Topic")).Types(e.typ(message.Type))
		method(name.Await(s.Impl), fmt.Sprintf("leads to [%s.%s] once a message comes from a topic.", m.Type.Name(), s.Impl), list,
			made("Await").Call(jen.Id(name.Step(s.GoName)), e.argsType(s).Values(values[:last]...), jen.Lit(message.Wire), jen.Id(from)))
	}
	if isNone(m.Result) {
		method(name.Done, "ends the run.", nil, made("Done").Call(e.typ(m.Result).Values()))
		return
	}
	id := e.local("result")
	method(name.Done, "ends the run with a result.", []jen.Code{jen.Id(id).Add(e.typ(m.Result))}, made("Done").Call(jen.Id(id)))
}

// stateDiagram returns the Mermaid lines of the state diagram of a machine.
func stateDiagram(m *model.Machine) []string {
	id := func(s *model.Step) string {
		if reservedInMermaid[s.Impl] || s.Impl == "state" || s.Impl == "note" {
			return s.Impl + "_"
		}
		return s.Impl
	}
	lines := []string{"stateDiagram-v2", "    [*] --> " + id(m.Start)}
	for _, edge := range m.Edges {
		to := "[*]"
		if edge.To != nil {
			to = id(edge.To)
		}
		line := "    " + id(edge.From) + " --> " + to
		if edge.Label != "" {
			line += ": " + edge.Label
		}
		lines = append(lines, line)
	}
	return lines
}
