// Package dag computes properties of a graph from the names and dependencies of its nodes. The
// properties are the order of the nodes, cycles, nodes that may be skipped, and sinks.
package dag

import "slices"

// Node is a node of a graph.
type Node struct {
	Name      string
	Needs     []Need
	MaySkip   bool // the node has a condition or may fail
	HasResult bool
}

// Need is a dependency on another node.
type Need struct {
	Name  string
	Takes bool // the node takes the result of the other node; if false, it only waits for its end
	Maybe bool // the node also begins if the other node was skipped
}

// index returns the indexes of the nodes by name. For duplicate names it returns the first.
func index(nodes []Node) map[string]int {
	at := make(map[string]int, len(nodes))
	for i, n := range nodes {
		if _, twice := at[n.Name]; !twice {
			at[n.Name] = i
		}
	}
	return at
}

// Order returns the indexes of the nodes in topological order. Nodes that do not depend on each
// other keep their given order. Order omits nodes that are part of a cycle or depend on such a
// node.
func Order(nodes []Node) []int {
	at, placed := index(nodes), make([]bool, len(nodes))
	order := make([]int, 0, len(nodes))
	for again := true; again; {
		again = false
		for i, n := range nodes {
			if placed[i] || slices.ContainsFunc(n.Needs, func(d Need) bool {
				j, known := at[d.Name]
				return known && !placed[j]
			}) {
				continue
			}
			placed[i], again = true, true
			order = append(order, i)
			break // Nodes before this node may follow.
		}
	}
	return order
}

// Cycles returns the cycles of the graph as lists of names. Each node needs the next one, and the
// last needs the first. There is one cycle for each back edge of a depth-first search.
func Cycles(nodes []Node) (cycles [][]string) {
	const open, done = 1, 2
	at, seen := index(nodes), make([]int, len(nodes))
	var path []string
	var visit func(i int)
	visit = func(i int) {
		seen[i] = open
		path = append(path, nodes[i].Name)
		back := map[string]bool{}
		for _, d := range nodes[i].Needs {
			switch j, known := at[d.Name]; {
			case !known:
			case seen[j] == open && !back[d.Name]:
				back[d.Name] = true
				cycles = append(cycles, append(slices.Clone(path[slices.Index(path, d.Name):]), d.Name))
			case seen[j] == 0:
				visit(j)
			}
		}
		path = path[:len(path)-1]
		seen[i] = done
	}
	for i := range nodes {
		if seen[i] == 0 {
			visit(i)
		}
	}
	return cycles
}

// Skippable reports for each node by name whether it may be skipped. A node may be skipped if
// MaySkip is true or if it needs a skippable node without Maybe.
func Skippable(nodes []Node) map[string]bool {
	skippable := make(map[string]bool)
	for _, i := range Order(nodes) {
		n := nodes[i]
		if n.MaySkip || slices.ContainsFunc(n.Needs, func(d Need) bool { return !d.Maybe && skippable[d.Name] }) {
			skippable[n.Name] = true
		}
	}
	return skippable
}

// Sinks returns the indexes of the nodes whose result no other node takes.
func Sinks(nodes []Node) (sinks []int) {
	taken := map[string]bool{}
	for _, n := range nodes {
		for _, d := range n.Needs {
			taken[d.Name] = taken[d.Name] || d.Takes
		}
	}
	for i, n := range nodes {
		if n.HasResult && !taken[n.Name] {
			sinks = append(sinks, i)
		}
	}
	return sinks
}
