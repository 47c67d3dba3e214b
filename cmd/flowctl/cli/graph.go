package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// graph prints how far a run is in a graph: a line for each node.
func (c *command) graph(ctx context.Context, s service, run, path string) error {
	g, err := s.Graph(ctx, run, path)
	switch {
	case err != nil:
		return err
	case c.output == "json":
		return c.print(g)
	}
	printed, err := printEach(c, g.Nodes, func(n *admin.GraphNode) string { return n.ID })
	if err != nil || printed {
		return err
	}
	head := newTable(c.Stdout, "graph", g.Path)
	var states []string
	for _, state := range admin.GraphStates() {
		if n := g.States[state]; n > 0 {
			states = append(states, fmt.Sprint(n, " ", state))
		}
	}
	head.row("nodes", fmt.Sprintf("%d: %s", g.Total, strings.Join(states, ", ")))
	if g.Build != "" {
		head.row("needs", "as build "+g.Build+" says")
	} else {
		head.row("needs", "unknown: "+g.Why)
	}
	for _, other := range g.Paths {
		if other != g.Path {
			head.row("other", other)
		}
	}
	if err := head.end(); err != nil {
		return err
	}
	fmt.Fprintln(c.Stdout)
	t := newTable(c.Stdout, "#", "NODE", "STATE", "NEEDS", "BEGAN", "TOOK", "NOTE")
	for i := range g.Nodes {
		n := &g.Nodes[i]
		seq, lasted := "", ""
		if n.Seq > 0 {
			seq = fmt.Sprint(n.Seq)
			end := n.Ended
			if end.IsZero() {
				end = time.Now()
			}
			lasted = took(end.Sub(n.Began))
		}
		t.row(seq, n.ID, n.State, strings.Join(n.Waits(), ", "), instant(n.Began), lasted, n.Note())
	}
	if err := t.end(); err != nil {
		return err
	}
	if g.Total > len(g.Nodes) {
		fmt.Fprintf(c.Stderr, "there are %d more nodes\n", g.Total-len(g.Nodes))
	}
	return nil
}
