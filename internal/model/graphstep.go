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
	"github.com/flowgen/flowgen/internal/spelling"
)

// Node is a step of a graph.
type Node struct {
	Step      *Step
	ID        string // unique in the graph
	Each      *Node  // node of each=; nil if the step runs once
	Takes     []Take // parameters behind the context and the input
	After     []*Node
	If        *Predicate // nil if the step is unconditional
	Skippable bool

	graph *Graph
}

// Take is a parameter that receives the result of a node.
type Take struct {
	Param   string
	Node    *Node
	Pointer bool // a pointer that is nil if the node was skipped
	Element bool // receives one element of the result of Node
}

// Predicate is a method that decides whether a step is executed or skipped.
type Predicate struct {
	Method string
	Takes  []Take
}

// Result returns the type in which dependent nodes receive the result of the node. It is nil if the
// node has no result.
func (n *Node) Result() types.Type {
	if n.Each != nil && n.Step.Result != nil {
		return types.NewSlice(n.Step.Result)
	}
	return n.Step.Result
}

// needs returns all dependencies of the node in the form of package dag.
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

// Needs returns the nodes that must have ended before the node begins, each once. It omits the node
// of each=. maybe[o] reports whether the node begins even if o was skipped.
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

// graphStep adds a step to the graph of its receiver, if the receiver is a graph. The stored name
// of the step begins with the name of the graph. The input of the graph becomes the first parameter
// of the step.
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

// graphs connects the steps of each graph and checks the graphs.
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
	for _, n := range g.steps { // in a loop of its own, because links needs the result types of all steps
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

// each finds the node that each= names.
func (b *builder) each(g *Graph, n *Node) {
	d := n.Step.Directive
	if d.Each.Value == "" {
		return
	}
	if n.Each = b.stepNamed(g, n, d.Each, "each="); n.Each != nil && !slices.Contains(paramNames(n.Step.Params), n.Each.name()) {
		b.report(d.Each.Pos, fmt.Sprintf("%s runs for each element of %s, and has no parameter for it", n.title(), n.Each.name()), "take an element as parameter "+n.Each.name())
	}
}

// links finds the dependencies of a step from its parameters and options.
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

// stepNamed returns the step that an option names. If there is none, stepNamed reports the mistake
// and returns nil.
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

// nearStep returns a suggestion for a step name that does not exist.
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
	if near := spelling.Nearest(called, names); near != "" {
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

// take returns the node whose result a parameter of a step or of its predicate receives. The result
// is false if the parameter is not a dependency.
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
		return t, true // each has reported the mistake
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
	return t, true // the mistake does not change the dependency
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

// order sorts the steps topologically, or reports the cycles that prevent this.
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

// pointers reports parameters of pointer type whose node is never skipped.
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

// result finds the steps whose results are the result of the graph.
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

// final returns the type of the node's result in the result of the graph. It is a pointer type if
// the node can be skipped.
func (n *Node) final() types.Type {
	if n.Skippable {
		return types.NewPointer(n.Result())
	}
	return n.Result()
}

// namedResult makes the result of the step in result= the result of the graph. It reports other
// steps whose results would be lost.
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

// lost records that a step has mistakes, so that steps which depend on it are not reported.
func (b *builder) lost(decl *ast.FuncDecl) {
	for t, g := range b.structs {
		if receiverName(&Function{decl: decl}) == t.Name() {
			g.broken[decl.Name.Name] = true
		}
	}
}

// methodNames returns the names of the struct's methods that are not steps.
func (g *Graph) methodNames() (names []string) {
	for _, m := range slices.Sorted(maps.Keys(g.methods)) {
		if !slices.ContainsFunc(g.steps, func(n *Node) bool { return n.name() == m }) && !g.broken[m] {
			names = append(names, m)
		}
	}
	return names
}
