package workflow

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// GraphError reports all faults of a graph. It is returned before any node begins.
type GraphError struct{ Faults []GraphFault }

// GraphFault is one fault of a graph.
type GraphFault struct {
	Kind GraphFaultKind
	Node string // its ID
	// Need is the ID of a dependency that is unknown, belongs to another graph, or has a result of
	// another type: Has instead of Wants.
	Need, Has, Wants string
	// Cycle lists the IDs of nodes each of which depends on the next one; the last ID equals the
	// first.
	Cycle []string
}

// GraphFaultKind is a kind of fault.
type GraphFaultKind string

// The kinds of faults.
const (
	GraphBadID     GraphFaultKind = "bad id"      // an ID is empty, longer than 200 bytes, or has characters other than letters, digits and -_.:
	GraphDuplicate GraphFaultKind = "duplicate"   // two nodes have the same ID
	GraphUnknown   GraphFaultKind = "unknown"     // a node depends on one that does not exist
	GraphForeign   GraphFaultKind = "other graph" // a node depends on one of another graph
	GraphType      GraphFaultKind = "type"        // a node uses a result as another type
	GraphCycle     GraphFaultKind = "cycle"       // nodes depend on each other
)

// Error lists the faults.
func (e *GraphError) Error() string {
	all := make([]string, len(e.Faults))
	for i := range e.Faults {
		all[i] = e.Faults[i].String()
	}
	return "workflow: graph: " + strings.Join(all, "; ")
}

// String describes the fault and how to fix it.
func (f *GraphFault) String() string {
	switch f.Kind {
	case GraphBadID:
		return fmt.Sprintf("the id %q is not one to 200 letters, digits and -_.:", f.Node)
	case GraphDuplicate:
		return fmt.Sprintf("two nodes have the id %q: give one of them another", f.Node)
	case GraphUnknown:
		return fmt.Sprintf("node %q needs %q, which there is not", f.Node, f.Need)
	case GraphForeign:
		return fmt.Sprintf("node %q needs %q of another graph: take its value after the Run of that", f.Node, f.Need)
	case GraphType:
		return fmt.Sprintf("node %q takes the result of %q as %s: it is %s", f.Node, f.Need, f.Wants, f.Has)
	case GraphCycle:
		return "nodes need each other: " + strings.Join(f.Cycle, " → ")
	}
	return string(f.Kind)
}

// check returns all that is wrong with the graph.
func (g *Graph) check() error {
	var faults []GraphFault
	for _, n := range g.nodes {
		if !goodNodeID(n.id) {
			faults = append(faults, GraphFault{Kind: GraphBadID, Node: n.id})
		}
		if g.byID[n.id] != n {
			faults = append(faults, GraphFault{Kind: GraphDuplicate, Node: n.id})
		}
		for _, d := range n.needs {
			switch to := g.byID[d.id]; {
			case d.g != g:
				faults = append(faults, GraphFault{Kind: GraphForeign, Node: n.id, Need: d.id})
			case to == nil:
				faults = append(faults, GraphFault{Kind: GraphUnknown, Node: n.id, Need: d.id})
			case !to.typ.AssignableTo(d.typ):
				faults = append(faults, GraphFault{Kind: GraphType, Node: n.id, Need: d.id, Has: to.typ.String(), Wants: d.typ.String()})
			}
		}
	}
	faults = append(faults, g.cycles()...)
	if len(faults) == 0 {
		return nil
	}
	return &GraphError{faults}
}

// goodNodeID reports whether an ID may be part of keys.
func goodNodeID(id string) bool {
	return id != "" && len(id) <= 200 && strings.IndexFunc(id, func(r rune) bool {
		return r == unicode.ReplacementChar || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.:", r)
	}) < 0
}

// cycles returns one cycle for each group of nodes that depend on each other.
func (g *Graph) cycles() (faults []GraphFault) {
	const open, done = 1, 2
	seen := map[*node]int{}
	type visit struct {
		n    *node
		next int // of its needs
	}
	for _, from := range g.nodes {
		if seen[from] != 0 {
			continue
		}
		seen[from] = open
		for path := []visit{{from, 0}}; len(path) > 0; {
			at := &path[len(path)-1]
			if at.next == len(at.n.needs) {
				seen[at.n] = done
				path = path[:len(path)-1]
				continue
			}
			d := at.n.needs[at.next]
			at.next++
			to := g.byID[d.id]
			switch {
			case to == nil || d.g != g:
			case seen[to] == open:
				first := slices.IndexFunc(path, func(v visit) bool { return v.n == to })
				var cycle []string
				for _, v := range path[first:] {
					cycle = append(cycle, v.n.id)
				}
				faults = append(faults, GraphFault{Kind: GraphCycle, Node: to.id, Cycle: append(cycle, to.id)})
			case seen[to] == 0:
				seen[to] = open
				path = append(path, visit{to, 0})
			}
		}
	}
	return faults
}
