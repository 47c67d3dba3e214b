package emit

import (
	"go/types"
	"slices"

	"github.com/dave/jennifer/jen"
	"github.com/flowgen/flowgen/internal/model"
	"github.com/flowgen/flowgen/internal/name"
)

// graph writes the definition of a graph workflow, its input and result types, and the function
// that builds and executes the graph.
func (e *emitter) graph(f *jen.File, w *model.Workflow) {
	f.Line()
	e.doc(f, &w.Function, nil)
	e.diagram(f, w)
	e.definition(f, w)
	e.graphCode(f, w)
}

// bindGraph writes the binding of the definition to its function. The binding contains the nodes,
// from which tools draw the graph.
func (e *emitter) bindGraph(r string, w *model.Workflow) *jen.Statement {
	args := []jen.Code{jen.Id(r), jen.Id(w.GoName), e.bindable(w, nil)}
	for _, node := range w.Graph.Nodes {
		args = append(args, lay(2*tabWidth+len(","), 2, func(layout int) *jen.Statement {
			return literal(e.qual(shimPath, "Node"), e.shapeOf(node), layout == 1)
		}))
	}
	return params(e.qual(shimPath, "BindGraph"), true, args)
}

// shapeOf returns the fields of the shim.Node that describes node.
func (e *emitter) shapeOf(node *model.Node) []value {
	values := []value{{"ID", jen.Lit(node.ID)}}
	if node.Each != nil {
		values = append(values, value{"Each", jen.Lit(node.Each.ID)})
	}
	ids := map[string][]jen.Code{}
	needs, maybe := node.Needs()
	for _, o := range needs {
		if maybe[o] && o.Skippable {
			ids["Maybe"] = append(ids["Maybe"], jen.Lit(o.ID))
		} else {
			ids["Needs"] = append(ids["Needs"], jen.Lit(o.ID))
		}
	}
	for _, field := range []string{"Needs", "Maybe"} {
		if len(ids[field]) > 0 {
			values = append(values, value{field, jen.Index().String().Values(ids[field]...)})
		}
	}
	if node.If != nil {
		values = append(values, value{"If", jen.True()})
	}
	if node.Step.Directive.OnFail == "skip" {
		values = append(values, value{"MayFail", jen.True()})
	}
	return values
}

// graphNames contains the local identifiers in the function of a graph.
type graphNames struct {
	ctx, in, g, asked, err, none string
	nodes                        map[*model.Node]string
}

func (e *emitter) graphNames(w *model.Workflow) graphNames {
	taken := map[string]bool{}
	pick := func(base string) string {
		id := free(base, e.model.Declared, keys(taken))
		taken[id] = true
		return id
	}
	n := graphNames{ctx: pick("ctx"), in: pick("in"), g: pick("g"), err: pick("err"), nodes: map[*model.Node]string{}}
	for _, node := range w.Graph.Nodes {
		id := node.Step.Impl
		if name.Reserved(id) || e.model.Declared[id] || taken[id] {
			id += "Node"
		}
		n.nodes[node] = pick(id)
	}
	n.asked, n.none = pick("asked"), pick("none")
	return n
}

// graphCode writes the function that builds and executes a graph.
func (e *emitter) graphCode(f *jen.File, w *model.Workflow) {
	n := e.graphNames(w)
	f.Line()
	f.Commentf("// %s builds the graph of [%s] and executes it.", name.Graph(w.GoName), w.Impl)
	f.Func().Id(name.Graph(w.GoName)).Params(jen.Id(n.ctx).Add(e.qual(workflowPath, "Context")), e.inParam(w, n.in)).
		Params(e.out(w), jen.Error()).BlockFunc(func(g *jen.Group) {
		var opts []jen.Code
		if w.Directive.OnFail == "finish" {
			opts = append(opts, e.qual(graphPath, "FinishOthers").Call())
		}
		g.Id(n.g).Op(":=").Add(e.qual(graphPath, "New")).Call(opts...)
		if slices.ContainsFunc(w.Graph.Nodes, func(node *model.Node) bool { return node.If != nil }) {
			g.Id(n.asked).Op(":=").Op("&").Add(e.structOf(w, jen.Id(n.in), nil)).Comment("conditions see the input, and no dependencies")
		}
		for _, node := range w.Graph.Nodes {
			g.Add(e.node(w, node, n))
		}
		g.If(jen.Id(n.err).Op(":=").Id(n.g).Dot("Run").Call(jen.Id(n.ctx)), jen.Id(n.err).Op("!=").Nil()).BlockFunc(func(g *jen.Group) {
			g.Var().Id(n.none).Add(e.out(w))
			g.Return(jen.Id(n.none), jen.Id(n.err))
		})
		g.Return(e.graphResult(w, n), jen.Nil())
	})
}

// inParam returns the parameter for the input of w.
func (e *emitter) inParam(w *model.Workflow, in string) *jen.Statement {
	if len(w.Params) == 0 {
		in = "_"
	}
	return jen.Id(in).Add(e.in(w))
}

// structOf writes the struct literal of a graph. It sets the input and the dependencies.
func (e *emitter) structOf(w *model.Workflow, in *jen.Statement, dependencies map[*model.Dependency]string) *jen.Statement {
	var values []value
	for _, p := range w.Params {
		values = append(values, value{p.Name, jen.Add(in).Dot(p.Field)})
	}
	for _, d := range w.Graph.Dependencies {
		if id := dependencies[d]; id != "" {
			values = append(values, value{d.Field, jen.Id(id)})
		}
	}
	return lay(2*tabWidth+len("return &"), 2, func(layout int) *jen.Statement {
		return literal(jen.Id(w.Graph.Type.Name()), values, layout == 1)
	})
}

// node writes the statement that adds a step to the graph, with its condition.
func (e *emitter) node(w *model.Workflow, node *model.Node, n graphNames) *jen.Statement {
	add, args := "AddNode", []jen.Code{jen.Id(n.g), jen.Lit(node.ID)}
	code := jen.Func().Params(jen.Id(n.ctx).Add(e.qual(workflowPath, "Context")))
	element := ""
	if node.Each != nil {
		add = "AddEach"
		args = append(args, jen.Id(n.nodes[node.Each]))
		i := slices.IndexFunc(node.Takes, func(t model.Take) bool { return t.Element })
		element = free(node.Takes[i].Param, e.model.Declared, []string{n.ctx, n.in, n.g, n.err})
		code = jen.Func().Params(jen.Id(n.ctx).Add(e.qual(workflowPath, "Context")), jen.Id(element).Add(e.elementType(node)))
	}
	result := jen.Params(e.qual(workflowPath, "None"), jen.Error())
	if node.Step.Result != nil {
		result = jen.Params(e.typ(node.Step.Result), jen.Error())
	}
	args = append(args, code.Add(result).Block(e.nodeCall(w, node, n, element)...))
	needs, maybe := node.Needs()
	for _, o := range needs {
		need := jen.Id(n.nodes[o])
		if maybe[o] && o.Skippable {
			need.Dot("Maybe").Call()
		}
		args = append(args, need)
	}
	s := e.qual(graphPath, add).Call(args...)
	if node.If != nil {
		s.Dot("If").Call(jen.Func().Params().Bool().Block(jen.Return(
			jen.Id(n.asked).Dot(node.If.Method).Call(e.taken(node.If.Takes, n, "")...))))
	}
	if node.Step.Directive.OnFail == "skip" {
		s.Dot("SkipOnFailure").Call()
	}
	if e.isUsed(w, node) {
		return jen.Id(n.nodes[node]).Op(":=").Add(s)
	}
	return s
}

// elementType returns the element type of the result that a node iterates over.
func (e *emitter) elementType(node *model.Node) *jen.Statement {
	return e.typ(node.Each.Result().Underlying().(*types.Slice).Elem())
}

// nodeCall writes the body of a node, which is the durable call of its step.
func (e *emitter) nodeCall(w *model.Workflow, node *model.Node, n graphNames, element string) []jen.Code {
	s := node.Step
	values := e.taken(node.Takes, n, element)
	if len(w.Params) > 0 {
		values = append([]jen.Code{jen.Id(n.in)}, values...)
	}
	called, args := "Call", []jen.Code{jen.Id(n.ctx), jen.Id(name.Step(s.GoName))}
	if s.Key != nil {
		called = "CallKey"
		args = append(args, e.qual(shimPath, "Key").Call(e.key(s.Key, s.Params, func(i int) jen.Code { return values[i] })))
	}
	given := func(wide bool) *jen.Statement {
		if len(values) == 0 {
			return jen.Struct().Values()
		}
		codes := slices.Clone(values)
		for i := range codes {
			if wide {
				codes[i] = jen.Id(s.Params[i].Field).Op(":").Add(codes[i])
			}
		}
		return group(jen.Id(name.Args(s.GoName)), "{", "}", wide, codes)
	}
	return []jen.Code{lay(2*tabWidth+len("return "), 2, func(layout int) *jen.Statement {
		all := append(slices.Clone(args), given(layout == 1))
		if s.Result == nil {
			return jen.Return(e.qual(workflowPath, "None").Values(), e.qual(shimPath, called+"Err").Call(all...))
		}
		return jen.Return(e.qual(shimPath, called).Types(e.typ(s.Result)).Call(all...))
	})}
}

// taken writes the results of other steps that are passed to a step.
func (e *emitter) taken(takes []model.Take, n graphNames, element string) (values []jen.Code) {
	for _, t := range takes {
		switch {
		case t.Element:
			values = append(values, jen.Id(element))
		case t.Pointer:
			values = append(values, jen.Id(n.nodes[t.Node]).Dot("Pointer").Call())
		default:
			values = append(values, jen.Id(n.nodes[t.Node]).Dot("Value").Call())
		}
	}
	return values
}

// isUsed reports whether the function of a graph refers to the variable of a node after adding the
// node.
func (e *emitter) isUsed(w *model.Workflow, node *model.Node) bool {
	return slices.Contains(w.Graph.Sinks, node) || slices.ContainsFunc(w.Graph.Nodes, func(o *model.Node) bool {
		needs, _ := o.Needs()
		return o.Each == node || slices.Contains(needs, node)
	})
}

// graphResult writes the result expression of a graph.
func (e *emitter) graphResult(w *model.Workflow, n graphNames) *jen.Statement {
	of := func(node *model.Node) *jen.Statement {
		if node.Skippable {
			return jen.Id(n.nodes[node]).Dot("Pointer").Call()
		}
		return jen.Id(n.nodes[node]).Dot("Value").Call()
	}
	switch sinks := w.Graph.Sinks; len(sinks) {
	case 0:
		return e.qual(workflowPath, "None").Values()
	case 1:
		return of(sinks[0])
	default:
		var values []value
		for i, node := range sinks {
			values = append(values, value{w.Graph.Results[i].Field, of(node)})
		}
		return lay(tabWidth+len("return , nil"), 2, func(layout int) *jen.Statement {
			return literal(jen.Id(name.Result(w.GoName)), values, layout == 1)
		})
	}
}
