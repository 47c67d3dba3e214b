package emit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dave/jennifer/jen"
	"github.com/flowgen/flowgen/internal/model"
)

// diagram writes a graph as Mermaid text at the end of the doc comment of its definition.
func (e *emitter) diagram(f *jen.File, w *model.Workflow) {
	f.Comment("//")
	for _, line := range flowchart(w) {
		f.Comment(strings.TrimRight("//\t"+line, " "))
	}
}

// flowchart returns the Mermaid lines of a graph: its steps with their conditions, and the flow of
// results between the steps.
func flowchart(w *model.Workflow) []string {
	g, ids := w.Graph, map[*model.Node]string{}
	for _, n := range g.Nodes {
		ids[n] = n.Step.Impl
		if reservedInMermaid[ids[n]] {
			ids[n] += "_"
		}
	}
	policy := "a failure cancels the others"
	if w.Directive.OnFail == "finish" {
		policy = "a failure ends what depends on it"
	}
	lines := []string{"flowchart TD", fmt.Sprintf("  subgraph %s_graph [\"%s: %s\"]", w.Impl, w.Impl, policy)}
	for _, n := range g.Nodes {
		lines = append(lines, "    "+ids[n]+shape(n))
	}
	for _, n := range g.Nodes {
		if n.Each != nil {
			lines = append(lines, fmt.Sprintf("    %s -->|each| %s", ids[n.Each], ids[n]))
		}
		needs, maybe := n.Needs()
		for _, o := range needs {
			arrow := "-->"
			switch {
			case slices.Contains(n.After, o):
				arrow = "-.->|after|"
			case maybe[o]:
				arrow = "-->|or skipped|"
			}
			lines = append(lines, fmt.Sprintf("    %s %s %s", ids[o], arrow, ids[n]))
		}
	}
	return append(lines, "  end")
}

// shape returns the Mermaid shape of a node. A step with each= is a stack of boxes, and a condition
// is part of the label.
func shape(n *model.Node) string {
	text := []string{n.Step.Impl}
	if n.Each != nil {
		text[0] += ", for each of " + n.Each.Step.Impl
	}
	if n.If != nil {
		var takes []string
		for _, t := range n.If.Takes {
			takes = append(takes, t.Param)
		}
		text = append(text, fmt.Sprintf("if %s(%s)", n.If.Method, strings.Join(takes, ", ")))
	}
	if n.Step.Directive.OnFail == "skip" {
		text = append(text, "skipped if it fails")
	}
	label := "\"" + strings.Join(text, "<br/>") + "\""
	switch {
	case n.Each != nil:
		return "[[" + label + "]]"
	case n.If != nil:
		return "{{" + label + "}}"
	}
	return "[" + label + "]"
}

// reservedInMermaid contains words that cannot be node IDs in Mermaid.
var reservedInMermaid = map[string]bool{
	"end": true, "graph": true, "flowchart": true, "subgraph": true, "style": true, "linkStyle": true, "class": true, "classDef": true,
	"click": true, "call": true, "href": true, "default": true, "direction": true, "interpolate": true, "_self": true, "_blank": true,
	"_parent": true, "_top": true,
}
