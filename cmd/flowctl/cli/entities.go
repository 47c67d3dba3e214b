package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// mostEntities is the maximum number of entities that are printed.
const mostEntities = 1000

// entities prints the operations of a run that match f.
func (c *command) entities(ctx context.Context, s service, run string, f admin.EntityFilter) error {
	f.Limit = mostEntities
	page, err := s.Entities(ctx, run, f)
	switch {
	case err != nil:
		return err
	case c.output == "json":
		return c.print(page)
	}
	printed, err := printEach(c, page.Entities, func(e *admin.Entity) string { return e.ID })
	if err != nil {
		return err
	}
	if !printed {
		t := newTable(c.Stdout, "#", "ID", "KIND", "NAME", "KEY", "STATE", "SINCE", "NOTE")
		for i := range page.Entities {
			e := &page.Entities[i]
			t.row(fmt.Sprint(e.Seq), e.ID, e.Kind, e.Name, e.Key, e.State, instant(e.Changed), note(e))
		}
		if err := t.end(); err != nil {
			return err
		}
	}
	if page.Next != 0 && c.output != "jsonl" {
		fmt.Fprintf(c.Stderr, "more results: --from %d\n", page.Next)
	}
	return nil
}

// note returns a description of an entity in addition to its state.
func note(e *admin.Entity) string {
	var notes []string
	if e.Attempt > 1 {
		notes = append(notes, fmt.Sprintf("attempt %d", e.Attempt))
	}
	if e.Open && !e.Due.IsZero() {
		notes = append(notes, "due "+instant(e.Due))
	}
	if e.Failure != nil {
		notes = append(notes, e.Failure.Message)
	}
	if e.Run != "" {
		notes = append(notes, e.Run)
	}
	return strings.Join(notes, ", ")
}

// tree prints a run and its descendants.
func (c *command) tree(ctx context.Context, s service, run string) error {
	tree, err := s.Tree(ctx, run)
	switch {
	case err != nil:
		return err
	case c.output == "json":
		return c.print(tree)
	}
	printed, err := printEach(c, tree.Runs, func(b *admin.Branch) string { return b.ID })
	if err != nil {
		return err
	}
	if !printed {
		t := newTable(c.Stdout, "RUN", "STATUS", "WORKFLOW", "ID", "CREATED", "ENDED")
		for i := range tree.Runs {
			b := &tree.Runs[i]
			t.row(strings.Repeat("  ", b.Depth)+b.ID, b.Status, b.Workflow, b.WorkflowID, instant(b.CreatedAt), instant(b.EndedAt))
		}
		if err := t.end(); err != nil {
			return err
		}
	}
	if tree.Partial && c.output != "jsonl" {
		fmt.Fprintln(c.Stderr, "the tree is incomplete: list all runs with flowctl runs --root")
	}
	return nil
}

// graph prints the progress of a run in a graph, one line per node.
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
		fmt.Fprintf(c.Stderr, "%d more nodes\n", g.Total-len(g.Nodes))
	}
	return nil
}
