package manifest

import (
	"strings"

	"github.com/flowgen/flowgen/internal/model"
)

// graph returns what a workflow does that is a graph: a node for each of its steps, with what
// it needs. Which of them a run has come to depends on when others ended.
func (x *walker) graph(g *model.Graph) []*Op {
	var ops []*Op
	for _, n := range g.Nodes {
		o := &Op{Op: "node", Name: n.ID, Body: []*Op{{Op: "step", Name: n.Step.Stored}}}
		if n.Each != nil {
			o.Args = append(o.Args, "each "+n.Each.ID)
		}
		for _, t := range n.Takes {
			o.Args = append(o.Args, t.Param+" = "+t.Node.ID)
		}
		for _, after := range n.After {
			o.Args = append(o.Args, "after "+after.ID)
		}
		if n.If != nil {
			o.Text = "if " + x.method(g, n.If.Method)
			for _, t := range n.If.Takes {
				o.Text += ", " + t.Param + " = " + t.Node.ID
			}
		}
		o.Position = x.pkg.Position(n.Step.Pos())
		ops = append(ops, o)
	}
	return ops
}

// method returns the marked name of a method of a graph's type.
func (x *walker) method(g *model.Graph, name string) string {
	for full := range x.world.bodies {
		if strings.HasSuffix(full, "."+g.Type.Name()+")."+name) && strings.Contains(full, g.Type.Pkg().Path()) {
			return marked(full)
		}
	}
	return name
}
