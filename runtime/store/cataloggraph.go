package store

import (
	"encoding/json"
	"fmt"
	"slices"
)

// CatalogGraph contains the nodes of a workflow that is a graph. The generator determines them from
// the source code. The log of a run records the executed nodes, but not the dependencies between
// nodes. A workflow that builds its graph from data has no CatalogGraph, because only its runs
// determine the nodes.
type CatalogGraph struct {
	Nodes []CatalogNode `json:"nodes,omitempty"` // each node comes after the nodes that it needs
	// TooMany is the number of nodes if the graph is larger than MaxCatalogGraph. Nodes is empty
	// then.
	TooMany int `json:"tooMany,omitempty"`
}

// CatalogNode is a node of a graph. The node begins when all nodes in Each, Needs and Maybe have
// ended.
type CatalogNode struct {
	ID      string   `json:"id"`                // used in the keys of the operations of the node
	Each    string   `json:"each,omitempty"`    // node whose result is a list, for each element of which this node runs; empty if this node runs once
	Needs   []string `json:"needs,omitempty"`   // nodes without which this node is skipped
	Maybe   []string `json:"maybe,omitempty"`   // nodes that may have been skipped
	If      bool     `json:"if,omitempty"`      // whether a condition of the node may skip it
	MayFail bool     `json:"mayFail,omitempty"` // whether the node counts as skipped if it fails
}

// Before returns the IDs of the nodes that must end before n begins.
func (n *CatalogNode) Before() []string {
	var each []string
	if n.Each != "" {
		each = []string{n.Each}
	}
	return slices.Concat(each, n.Needs, n.Maybe)
}

// MaxCatalogGraph is the maximum size in bytes of the JSON encoding of a graph. This is sufficient
// for about 1,000 nodes.
const MaxCatalogGraph = 64 << 10

// NewCatalogGraph returns a graph with the given nodes. If the graph would be larger than
// MaxCatalogGraph, it contains only the number of nodes. It returns nil if there are no nodes.
func NewCatalogGraph(nodes []CatalogNode) *CatalogGraph {
	if len(nodes) == 0 {
		return nil
	}
	if len(nodes) <= MaxCatalogGraph {
		if packed, err := json.Marshal(nodes); err == nil && len(packed) <= MaxCatalogGraph-len(`{"nodes":}`) {
			return &CatalogGraph{Nodes: nodes}
		}
	}
	return &CatalogGraph{TooMany: len(nodes)}
}

// Same reports whether two graphs have the same nodes. Both may be nil.
func (g *CatalogGraph) Same(o *CatalogGraph) bool {
	if g == nil || o == nil {
		return g == o
	}
	return g.TooMany == o.TooMany && slices.EqualFunc(g.Nodes, o.Nodes, func(a, b CatalogNode) bool {
		return a.ID == b.ID && a.Each == b.Each && a.If == b.If && a.MayFail == b.MayFail && slices.Equal(a.Needs, b.Needs) && slices.Equal(a.Maybe, b.Maybe)
	})
}

// Check returns an *InvalidError if the ID of a node is invalid or not unique, if a node needs a
// node that does not precede it, or if the graph is larger than MaxCatalogGraph.
func (g *CatalogGraph) Check() error {
	if g == nil {
		return nil
	}
	if g.TooMany < 0 || (g.TooMany == 0) == (len(g.Nodes) == 0) {
		return &InvalidError{What: "graph", Value: fmt.Sprint(g.TooMany), Reason: "needs either nodes or TooMany"}
	}
	known := make(map[string]bool, len(g.Nodes))
	for i := range g.Nodes {
		n := &g.Nodes[i]
		if n.ID == "" {
			return &InvalidError{What: "node of a graph", Reason: "has no id"}
		}
		if err := CheckName("node of a graph", n.ID); err != nil {
			return err
		}
		for _, before := range n.Before() {
			if !known[before] {
				return &InvalidError{What: "node of a graph", Value: n.ID, Reason: fmt.Sprintf("needs %.60q, which does not come before it", before)}
			}
		}
		if known[n.ID] {
			return &InvalidError{What: "node of a graph", Value: n.ID, Reason: "exists twice"}
		}
		known[n.ID] = true
	}
	if packed, err := json.Marshal(g); err != nil || len(packed) > MaxCatalogGraph {
		return tooLong("graph", string(packed), MaxCatalogGraph)
	}
	return nil
}
