package compat

import (
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/manifest"
)

// graph compares the steps of two versions of a graph.
func (o *orders) graph(old, now *manifest.Op) {
	if old.Text != now.Text {
		o.reportf(now.Position, Care, "graph.onfail", "onfail= of the graph is %s and was %s", orNone(now.Text), orNone(old.Text))
	}
	before, after := byName(old.Body), byName(now.Body)
	for _, was := range old.Body {
		if is := after[was.Name]; is != nil {
			o.node(was, is)
			continue
		}
		o.stepMoved(was, was.Body[0].Name)
	}
	for _, is := range now.Body {
		if before[is.Name] == nil {
			o.nodeAdded(is, now.Body)
		}
	}
	if !slices.Equal(common(old.Body, after), common(now.Body, before)) {
		o.reportf(now.Position, Care, "graph.order", "steps of the graph that can start at the same time start in another order")
	}
}

// common returns the names of the nodes that are also in others.
func common(nodes []*manifest.Op, others map[string]*manifest.Op) []string {
	var names []string
	for _, n := range nodes {
		if others[n.Name] != nil {
			names = append(names, n.Name)
		}
	}
	return names
}

// nodeAdded reports a new step of a graph. Unless all other steps precede it, runs in flight may
// have recorded steps that the new code starts after the new step.
func (o *orders) nodeAdded(is *manifest.Op, all []*manifest.Op) {
	class := Care
	if is.Always && len(ancestors(is, byName(all))) < len(all)-1 {
		class = Breaks
	}
	o.reportf(is.Position, class, "graph.step", "step %s was added to the graph", is.Name)
}

// ancestors returns the names of the nodes that end before the given node begins.
func ancestors(of *manifest.Op, all map[string]*manifest.Op) map[string]bool {
	found := map[string]bool{}
	var add func(*manifest.Op)
	add = func(n *manifest.Op) {
		for _, name := range needs(n) {
			if next := all[name]; next != nil && !found[name] {
				found[name] = true
				add(next)
			}
		}
	}
	add(of)
	return found
}

// needs returns the names of the nodes that a node depends on.
func needs(n *manifest.Op) []string {
	var names []string
	for _, a := range n.Args {
		names = append(names, strings.TrimPrefix(strings.TrimPrefix(a, "after "), "*"))
	}
	if _, conditions, ok := strings.Cut(n.Text, ", "); ok {
		for a := range strings.SplitSeq(conditions, ", ") {
			names = append(names, strings.TrimPrefix(a, "*"))
		}
	}
	return names
}

// node compares two versions of a step of a graph.
func (o *orders) node(was, is *manifest.Op) {
	switch {
	case was.Limit == is.Limit:
	case was.Limit == "" || is.Limit == "":
		o.reportf(is.Position, ifCalled(Breaks, was.Always || is.Always), "graph.each", "step %s runs %s and ran %s: the element is part of the key", is.Name, orOnce(is.Limit), orOnce(was.Limit))
	default:
		o.reportf(is.Position, Care, "graph.each", "step %s runs %s and ran %s", is.Name, is.Limit, was.Limit)
	}
	if !slices.Equal(was.Args, is.Args) {
		o.reportf(is.Position, Care, "graph.needs", "step %s needs %s and needed %s", is.Name, orNone(strings.Join(is.Args, ", ")), orNone(strings.Join(was.Args, ", ")))
	}
	if was.Text != is.Text {
		o.reportf(is.Position, Care, "graph.if", "the condition of step %s is %s and was %s", is.Name, orNone(is.Text), orNone(was.Text))
	}
	if was.Least != is.Least {
		o.reportf(is.Position, Care, "graph.onfail", "onfail= of step %s is %s and was %s", is.Name, orNone(is.Least), orNone(was.Least))
	}
}

func orOnce(each string) string {
	if each == "" {
		return "once"
	}
	return each
}
