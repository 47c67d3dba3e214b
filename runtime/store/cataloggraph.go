package store

import (
	"encoding/json"
	"fmt"
	"slices"
)

// CatalogGraph has the nodes of a workflow that is a graph, as the generator knows them: what runs do of it is in their logs, and which
// node needs which is not. Of a graph that workflow code builds from data only its runs know the nodes: it has none of these.
type CatalogGraph struct {
	Nodes []CatalogNode `json:"nodes,omitempty"` // each after those that it needs
	// TooMany is how many nodes there are of a graph that is longer than MaxCatalogGraph. Then it has no Nodes.
	TooMany int `json:"tooMany,omitempty"`
}

// CatalogNode is a node of a graph. It begins when all nodes have ended that Each, Needs and Maybe name.
type CatalogNode struct {
	ID      string   `json:"id"`                // part of the keys of what the node does
	Each    string   `json:"each,omitempty"`    // the node over whose result it runs, once for each element; empty: it runs once
	Needs   []string `json:"needs,omitempty"`   // nodes without which it is skipped
	Maybe   []string `json:"maybe,omitempty"`   // nodes that may have been skipped
	If      bool     `json:"if,omitempty"`      // it has a condition, which may skip it
	MayFail bool     `json:"mayFail,omitempty"` // it counts as skipped if it fails
}

// Before returns the ids of all nodes that must have ended before the node begins.
func (n *CatalogNode) Before() []string {
	var each []string
	if n.Each != "" {
		each = []string{n.Each}
	}
	return slices.Concat(each, n.Needs, n.Maybe)
}

// MaxCatalogGraph bounds a graph, in bytes of its JSON: about 1,000 nodes.
const MaxCatalogGraph = 64 << 10

// NewCatalogGraph returns a graph of these nodes, or only their number if they are too many. No nodes are no graph.
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

// Check returns an *InvalidError for a node whose id is none or was there before, for one that needs a node which does not come
// before it, and for a graph longer than MaxCatalogGraph.
func (g *CatalogGraph) Check() error {
	if g == nil {
		return nil
	}
	if g.TooMany < 0 || (g.TooMany == 0) == (len(g.Nodes) == 0) {
		return &InvalidError{What: "graph", Value: fmt.Sprint(g.TooMany), Reason: "has either nodes, or too many of them"}
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
			return &InvalidError{What: "node of a graph", Value: n.ID, Reason: "is there twice"}
		}
		known[n.ID] = true
	}
	if packed, err := json.Marshal(g); err != nil || len(packed) > MaxCatalogGraph {
		return tooLong("graph", string(packed), MaxCatalogGraph)
	}
	return nil
}
