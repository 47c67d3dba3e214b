package model

import (
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/dag"
	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/name"
)

// Node is a step of a graph.
type Node struct {
	Step      *Step
	ID        string // unique in the graph
	Each      *Node  // node over whose elements it runs; nil if it runs once
	Takes     []Take // parameters after the context and the input
	After     []*Node
	If        *Predicate // nil if unconditional
	Skippable bool

	graph *Graph
}

// Take is a parameter that receives the result of a node.
type Take struct {
	Param   string
	Node    *Node
	Pointer bool // nil if the node was skipped
	Element bool // receives one element of the result
}

// Predicate is a method that decides whether a node is skipped.
type Predicate struct {
	Method string
	Takes  []Take
}

// Result returns the type of the node's result for dependent nodes, or nil if it has no result.
func (n *Node) Result() types.Type {
	if n.Each != nil && n.Step.Result != nil {
		return types.NewSlice(n.Step.Result)
	}
	return n.Step.Result
}

// needs returns all dependencies of the node.
func (n *Node) needs() (needs []dag.Need) {
	takes := n.Takes
	if n.If != nil {
		takes = slices.Concat(takes, n.If.Takes)
	}
	for _, t := range takes {
		needs = append(needs, dag.Need{Name: t.Node.name(), Takes: true, Maybe: t.Pointer})
	}
	for _, a := range n.After {
		needs = append(needs, dag.Need{Name: a.name(), Maybe: true})
	}
	return needs
}

// Needs returns the nodes that must have ended before the node begins, without duplicates. maybe
// reports for each of them whether the node begins even if it was skipped. Needs omits the node over
// whose elements the node runs.
func (n *Node) Needs() (nodes []*Node, maybe map[*Node]bool) {
	maybe = map[*Node]bool{}
	for _, d := range n.needs() {
		i := slices.IndexFunc(n.graph.Nodes, func(o *Node) bool { return o.name() == d.Name })
		o := n.graph.Nodes[i]
		if o == n.Each {
			continue
		}
		if !slices.Contains(nodes, o) {
			nodes = append(nodes, o)
			maybe[o] = true
		}
		maybe[o] = maybe[o] && d.Maybe
	}
	return nodes, maybe
}

func (n *Node) name() string { return n.Step.Impl }

func (n *Node) title() string { return "step " + n.name() + " of graph " + n.graph.Type.Name() }

// graphStep adds a step to the graph of its receiver, if it has one. The step is named within the
// graph, and the input of the graph precedes its parameters.
func (b *builder) graphStep(s *Step) {
	g := b.structs[s.named]
	if g == nil {
		for _, option := range []string{"after", "each", "if", "onfail"} {
			if s.Directive.Has(option) {
				b.report(s.Directive.At(option), fmt.Sprintf("%s of step %s is for the steps of a graph", option, s.Impl), "make it a method of a struct with //flow:dag, or remove "+option+"=")
			}
		}
		return
	}
	s.Graph = g
	if !s.Directive.Has("as") {
		s.GoName = g.workflow.GoName + s.GoName
	}
	if s.Directive.Name == "" {
		s.Stored = g.workflow.Stored + "." + s.Impl
	}
	if len(g.workflow.Params) > 0 {
		input := types.NewTypeName(s.pos, b.Types, name.Input(g.workflow.GoName), nil)
		types.NewNamed(input, types.NewStruct(nil, nil), nil)
		s.Params = slices.Insert(s.Params, 0, Param{Name: "in", Field: "In", Wire: "in", Type: input.Type(), Var: s.sig.Recv()})
		for i, field := range name.Fields(paramNames(s.Params)) {
			s.Params[i].Field = field
		}
	}
	g.steps = append(g.steps, &Node{Step: s, ID: s.Stored[strings.LastIndexByte(s.Stored, '.')+1:], graph: g})
}

func paramNames(params []Param) (names []string) {
	for _, p := range params {
		names = append(names, p.Name)
	}
	return names
}

// graphs connects the steps of each graph, and checks the complete graph.
func (b *builder) graphs() {
	for _, w := range b.model.Workflows {
		if w.Graph != nil {
			b.connect(w.Graph)
		}
	}
}

func (b *builder) connect(g *Graph) {
	slices.SortFunc(g.steps, func(x, y *Node) int { return b.comparePos(x.Step.pos, y.Step.pos) })
	if len(g.steps) == 0 && len(g.broken) == 0 {
		b.report(g.workflow.pos, "graph "+g.Type.Name()+" has no steps", "put //flow:step on methods of "+g.Type.Name())
	}
	for i, n := range g.steps {
		for _, other := range g.steps[:i] {
			if other.ID == n.ID {
				b.report(n.Step.pos, fmt.Sprintf("%s has the id %q, as has step %s at %s", n.title(), n.ID, other.name(), b.line(other.Step.pos)),
					"an id is the last part of the stored name: give one of them another with name="+g.workflow.Stored+".id")
			}
		}
		if n.name() == "in" {
			b.report(n.Step.pos, n.title()+" has the name under which the input is stored", "rename it")
		}
	}
	for _, n := range g.steps { // before links, which needs the result types
		b.each(g, n)
	}
	for _, n := range g.steps {
		b.links(g, n)
	}
	b.order(g)
	if len(g.Nodes) == len(g.steps) {
		b.pointers(g)
		b.result(g)
	}
	b.graphOptions(g)
	for _, n := range g.steps {
		for _, d := range g.Dependencies {
			d.Steps = append(d.Steps, n.Step)
		}
	}
}

// each finds the node over whose elements a step runs.
func (b *builder) each(g *Graph, n *Node) {
	d := n.Step.Directive
	if d.Each.Value == "" {
		return
	}
	if n.Each = b.stepNamed(g, n, d.Each, "each="); n.Each != nil && !slices.Contains(paramNames(n.Step.Params), n.Each.name()) {
		b.report(d.Each.Pos, fmt.Sprintf("%s runs for each element of %s, and has no parameter for it", n.title(), n.Each.name()), "take an element as parameter "+n.Each.name())
	}
}

// links finds the dependencies of a step.
func (b *builder) links(g *Graph, n *Node) {
	d := n.Step.Directive
	first := 0
	if len(g.workflow.Params) > 0 {
		first = 1
	}
	for _, p := range n.Step.Params[first:] {
		if t, ok := b.take(g, n, n.title(), p, n.Each); ok {
			n.Takes = append(n.Takes, t)
		}
	}
	for _, after := range d.After {
		switch o := b.stepNamed(g, n, after, "after="); {
		case o == nil:
		case slices.ContainsFunc(n.Takes, func(t Take) bool { return t.Node == o }):
			b.report(after.Pos, fmt.Sprintf("%s takes the result of %s, so it comes after it anyway", n.title(), o.name()), "remove "+o.name()+" from after=")
		default:
			n.After = append(n.After, o)
		}
	}
	if d.If.Value != "" {
		n.If = b.predicate(g, n)
	}
}

// stepNamed returns the node that an option names, or reports that there is none.
func (b *builder) stepNamed(g *Graph, n *Node, text directive.Text, option string) *Node {
	i := slices.IndexFunc(g.steps, func(o *Node) bool { return o.name() == text.Value })
	switch {
	case i >= 0:
		return g.steps[i]
	case !g.broken[text.Value]:
		b.report(text.Pos, fmt.Sprintf("%s: graph %s has no step %s, which %s names", n.title(), g.Type.Name(), text.Value, strings.TrimSuffix(option, "=")), b.nearStep(g, n, text.Value))
	}
	return nil
}

// nearStep suggests a step for an unknown name.
func (b *builder) nearStep(g *Graph, n *Node, called string) string {
	var names []string
	for _, o := range g.steps {
		if o != n {
			names = append(names, o.name())
		}
	}
	if g.methods[called] != nil {
		return "put //flow:step on method " + called
	}
	if near := directive.Nearest(called, names); near != "" {
		return "did you mean " + near + "?"
	}
	for _, p := range g.workflow.Params {
		if strings.EqualFold(p.Name, called) {
			return "read the input from field " + p.Name + " of the receiver"
		}
	}
	if len(names) == 0 {
		return "name a step"
	}
	return "name one of " + strings.Join(names, ", ")
}

// take returns the node whose result a parameter of a step or its predicate receives.
func (b *builder) take(g *Graph, n *Node, title string, p Param, each *Node) (Take, bool) {
	i := slices.IndexFunc(g.steps, func(o *Node) bool { return o.name() == p.Name })
	if i < 0 {
		if !g.broken[p.Name] {
			b.report(p.Var.Pos(), fmt.Sprintf("%s has a parameter %s, and graph %s has no step of that name", title, p.Name, g.Type.Name()), b.nearStep(g, n, p.Name))
		}
		return Take{}, false
	}
	t := Take{Param: p.Name, Node: g.steps[i]}
	has, text := t.Node.Result(), func(t types.Type) string { return types.TypeString(t, types.RelativeTo(b.Types)) }
	if has == nil {
		b.report(p.Var.Pos(), fmt.Sprintf("%s takes the result of %s, which has none", title, p.Name), "remove the parameter and write after="+p.Name+" in the directive")
		return t, false
	}
	if t.Node == each {
		list, ok := has.Underlying().(*types.Slice)
		if !ok {
			b.report(n.Step.Directive.Each.Pos, fmt.Sprintf("%s runs for each element of %s, whose result is no slice but %s", title, p.Name, text(has)), "let "+p.Name+" return a slice, or remove each=")
			return t, false
		}
		t.Element, has = true, list.Elem()
	}
	switch {
	case types.AssignableTo(has, p.Type):
		return t, true
	case !t.Element && types.Identical(types.NewPointer(has), p.Type):
		t.Pointer = true
		return t, true
	}
	if each == nil && n.Step.Directive.Each.Value != "" && title == n.title() {
		return t, true // the node to iterate over was reported
	}
	what, fix := fmt.Sprintf("%s takes %s as %s: it is %s", title, p.Name, text(p.Type), text(has)), "take "+text(has)
	if t.Element {
		what = fmt.Sprintf("%s takes an element of %s as %s: it is %s", title, p.Name, text(p.Type), text(has))
	}
	if list, ok := has.Underlying().(*types.Slice); ok && types.AssignableTo(list.Elem(), p.Type) {
		fix += ", or write each=" + p.Name + " to run for each element"
		if title != n.title() {
			fix = "take " + text(has) + ": a condition is asked once, for all elements"
		}
	}
	b.report(p.Var.Pos(), what, fix)
	return t, true // still a dependency
}

// shape returns the graph in the form of package dag.
func (g *Graph) shape() (nodes []dag.Node) {
	for _, n := range g.steps {
		nodes = append(nodes, dag.Node{
			Name: n.name(), Needs: n.needs(), MaySkip: n.If != nil || n.Step.Directive.OnFail == "skip", HasResult: n.Step.Result != nil,
		})
	}
	return nodes
}

// order sorts the steps topologically, or reports cycles.
func (b *builder) order(g *Graph) {
	nodes := g.shape()
	for _, cycle := range dag.Cycles(nodes) {
		at := g.steps[slices.IndexFunc(g.steps, func(n *Node) bool { return n.name() == cycle[0] })]
		if len(cycle) == 2 {
			b.report(at.Step.pos, at.title()+" needs itself: "+strings.Join(cycle, " → "), "remove the parameter, or the name in after=")
			continue
		}
		b.report(at.Step.pos, fmt.Sprintf("steps of graph %s need each other: %s", g.Type.Name(), strings.Join(cycle, " → ")), "remove one of these dependencies")
	}
	for _, i := range dag.Order(nodes) {
		g.Nodes = append(g.Nodes, g.steps[i])
	}
}

// pointers reports pointer parameters for results that are never missing.
func (b *builder) pointers(g *Graph) {
	skippable := dag.Skippable(g.shape())
	for _, n := range g.Nodes {
		n.Skippable = skippable[n.name()]
	}
	check := func(title string, takes []Take, pos func(string) *types.Var) {
		for _, t := range takes {
			if t.Pointer && !t.Node.Skippable {
				b.report(pos(t.Param).Pos(), fmt.Sprintf("%s takes %s by pointer, and %s is never skipped", title, t.Param, t.Param),
					"take "+types.TypeString(t.Node.Result(), types.RelativeTo(b.Types))+", or let "+t.Param+" be skipped with if= or onfail=skip")
			}
		}
	}
	for _, n := range g.steps {
		check(n.title(), n.Takes, func(p string) *types.Var { return paramOf(n.Step.sig, p) })
		if n.If != nil {
			check(n.predicateTitle(), n.If.Takes, func(p string) *types.Var {
				return paramOf(b.Info.Defs[g.methods[n.If.Method].Name].(*types.Func).Signature(), p)
			})
		}
	}
}

func paramOf(sig *types.Signature, name string) *types.Var {
	for v := range sig.Params().Variables() {
		if v.Name() == name {
			return v
		}
	}
	return nil
}

// result finds the steps that provide the result of the graph.
func (b *builder) result(g *Graph) {
	w, text := g.workflow, g.workflow.Directive.Result
	for _, i := range dag.Sinks(g.shape()) {
		g.Sinks = append(g.Sinks, g.steps[i])
	}
	if text.Value != "" {
		b.namedResult(g, text)
	}
	switch len(g.Sinks) {
	case 0:
	case 1:
		w.Result = g.Sinks[0].final()
	default:
		var names []string
		for _, n := range g.Sinks {
			names = append(names, n.name())
		}
		for i, field := range name.Fields(names) {
			g.Results = append(g.Results, Param{Name: names[i], Field: field, Wire: g.Sinks[i].ID, Type: g.Sinks[i].final()})
		}
		result := types.NewTypeName(w.pos, b.Types, name.Result(w.GoName), nil)
		w.Result = types.NewNamed(result, types.NewStruct(nil, nil), nil)
	}
}

// final returns the type of a sink's result as part of the graph's result.
func (n *Node) final() types.Type {
	if n.Skippable {
		return types.NewPointer(n.Result())
	}
	return n.Result()
}

// namedResult selects the result of one step as that of the graph, and reports results that would
// be lost.
func (b *builder) namedResult(g *Graph, text directive.Text) {
	i := slices.IndexFunc(g.steps, func(n *Node) bool { return n.name() == text.Value })
	if i < 0 {
		if !g.broken[text.Value] {
			b.report(text.Pos, fmt.Sprintf("graph %s has no step %s, which result names", g.Type.Name(), text.Value), b.nearStep(g, nil, text.Value))
		}
		return
	}
	sink := g.steps[i]
	if sink.Step.Result == nil {
		b.report(text.Pos, fmt.Sprintf("result=%s: the step has no result", text.Value), "name another one, or let it return one")
	}
	for _, n := range g.Sinks {
		if n != sink {
			b.report(n.Step.pos, fmt.Sprintf("%s has a result that no step takes, and that of the graph is the one of %s", n.title(), sink.name()),
				"take it as parameter "+n.name()+" of another step, return only an error, or remove result= to get the results of both")
		}
	}
	g.Sinks = []*Node{sink}
}

// lost records a step with reported mistakes, so that its dependents are not reported as well.
func (b *builder) lost(decl *ast.FuncDecl) {
	for t, g := range b.structs {
		if receiverName(&Function{decl: decl}) == t.Name() {
			g.broken[decl.Name.Name] = true
		}
	}
}

// methodNames returns the methods of the struct that are not steps.
func (g *Graph) methodNames() (names []string) {
	for _, m := range slices.Sorted(maps.Keys(g.methods)) {
		if !slices.ContainsFunc(g.steps, func(n *Node) bool { return n.name() == m }) && !g.broken[m] {
			names = append(names, m)
		}
	}
	return names
}
