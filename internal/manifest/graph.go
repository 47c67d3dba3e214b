package manifest

import (
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/model"
)

// graph returns the operations of a graph workflow. They contain a node with its dependencies for
// each step. Steps that can begin at the same time begin in the order of the nodes. All other
// progress of a run depends on when steps end.
func (x *walker) graph(g *model.Graph) []*Op {
	o := &Op{Op: "graph", Position: x.pkg.Position(g.Type.Pos())}
	if g.Finishes() {
		o.Text = "finish"
	}
	certain := map[*model.Node]bool{}
	for _, n := range g.Nodes {
		certain[n] = n.If == nil && !slices.ContainsFunc(n.Takes, func(t model.Take) bool { return !t.Pointer && (!certain[t.Node] || t.Node.Skippable) })
		o.Body = append(o.Body, x.node(g, n, certain[n] && n.Each == nil))
	}
	var sinks []string
	for _, n := range g.Sinks {
		sinks = append(sinks, n.ID)
	}
	return []*Op{o, {Op: "return", Text: strings.Join(sinks, ", "), Position: o.Position}}
}

func (x *walker) node(g *model.Graph, n *model.Node, certain bool) *Op {
	position := x.pkg.Position(n.Step.Pos())
	o := &Op{Op: "node", Name: n.ID, Always: certain, Body: []*Op{{Op: "step", Name: n.Step.Stored, Position: position}}, Position: position}
	if n.Each != nil {
		o.Limit = "each " + n.Each.ID
	}
	if n.Step.Directive.OnFail == "skip" {
		o.Least = "skip"
	}
	for _, t := range n.Takes {
		o.Args = append(o.Args, takes(t))
	}
	for _, after := range n.After {
		o.Args = append(o.Args, "after "+after.ID)
	}
	slices.Sort(o.Args)
	if n.If != nil {
		o.Text = "if " + x.method(g, n.If.Method)
		for _, t := range n.If.Takes {
			o.Text += ", " + takes(t)
		}
	}
	return o
}

func takes(t model.Take) string {
	if t.Pointer {
		return "*" + t.Node.ID
	}
	return t.Node.ID
}

// method returns the marked name of a method of the graph's struct.
func (x *walker) method(g *model.Graph, name string) string {
	for full := range x.world.bodies {
		if strings.HasSuffix(full, "."+g.Type.Name()+")."+name) && strings.Contains(full, g.Type.Pkg().Path()) {
			return marked(full)
		}
	}
	return name
}
