// Package dag holds what follows from the dependencies of a graph alone, whatever its nodes
// are: their order, cycles, which of them may be skipped, and which are sinks. It knows
// names, and neither types nor files.
package dag

import "slices"

// Node is a node of a graph.
type Node struct {
	Name      string
	Needs     []Need
	MaySkip   bool // it has a condition, or may fail
	HasResult bool
}

// Need is a dependency of a node on another one.
type Need struct {
	Name  string
	Takes bool // the result, in contrast to waiting for the end only
	Maybe bool // the node begins also if the other one was skipped
}

// index returns the nodes by name. Of two with one name the first counts.
func index(nodes []Node) map[string]int {
	at := make(map[string]int, len(nodes))
	for i, n := range nodes {
		if _, twice := at[n.Name]; !twice {
			at[n.Name] = i
		}
	}
	return at
}

// Order returns the indexes of the nodes such that each comes after those that it needs, and
// otherwise as they are. What is part of a cycle, or needs such a node, is missing.
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
			break // those before it may follow now
		}
	}
	return order
}

// Cycles returns the names on cycles, each of which needs the next one, the last being the
// first: one for each dependency that leads back to where a walk through the graph came from.
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

// Skippable reports of each node, by name, whether it may be skipped: if it says so, or if a
// node that it needs may be, unless that is a Maybe.
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

// Sinks returns the indexes of the nodes with a result that no other one takes.
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
