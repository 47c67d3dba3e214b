package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// Graph is the progress of a run in a graph: a struct with //flow:dag, or a graph that workflow
// code builds (workflow.NewGraph).
//
// A log contains the nodes that have begun, but not their dependencies. For a struct the catalog
// contains the dependencies of each build; they are used if everything that the run has done is
// consistent with them. Otherwise, and for graphs that are built at run time, the order of nodes is
// that of the log.
type Graph struct {
	Run   string   `json:"run"`
	Path  string   `json:"path"`            // prefix of the keys of the operations of its nodes, such as research/graph#1
	Paths []string `json:"paths,omitempty"` // the first 100 graphs that the run has begun, if there are several
	// Build is the build from which the dependencies are known. If it is empty, they are unknown,
	// and Why is the reason.
	Build string `json:"build,omitempty"`
	Why   string `json:"why,omitempty"`
	Code  string `json:"code,omitempty"` // the build that executed the run last
	// States contains the number of nodes in each state, see [GraphStates]. Nodes that have not
	// begun are included only if Build is set.
	States map[string]int `json:"states"`
	// Nodes are the first 1,000 nodes, in topological order if Build is set, otherwise in the order
	// in which they began.
	Nodes []GraphNode `json:"nodes"`
	Total int         `json:"total"` // number of nodes
}

// GraphNode is the progress of a node of a graph.
type GraphNode struct {
	ID    string `json:"id"`
	State string `json:"state"` // one of [GraphStates]
	// Layer is 0 for a node without dependencies, and otherwise one more than the largest layer of
	// its dependencies. If Build is empty, it is derived from the time at which the node began:
	// after a node of the previous layer had ended.
	Layer      int       `json:"layer"`
	Each       string    `json:"each,omitempty"`    // the node over whose result it iterates, executing once per element
	Needs      []string  `json:"needs,omitempty"`   // nodes without which it is skipped
	Maybe      []string  `json:"maybe,omitempty"`   // nodes that it waits for, even if they are skipped
	If         bool      `json:"if,omitempty"`      // it has a condition, which may skip it
	MayFail    bool      `json:"mayFail,omitempty"` // it counts as skipped if it fails
	Seq        uint64    `json:"seq,omitempty"`     // of its first event; 0 if it has not begun
	Began      time.Time `json:"began,omitzero"`
	Ended      time.Time `json:"ended,omitzero"`
	Operations int       `json:"operations,omitempty"` // operations that it has begun, such as steps
	Open       int       `json:"open,omitempty"`       // operations that have not ended
	Failed     int       `json:"failed,omitempty"`     // operations that have failed
}

// Before returns the IDs of all nodes that must end before this node begins.
func (n *GraphNode) Before() []string {
	plan := CatalogNode{Each: n.Each, Needs: n.Needs, Maybe: n.Maybe}
	return plan.Before()
}

// Waits describes the dependencies of the node in words.
func (n *GraphNode) Waits() (all []string) {
	if n.Each != "" {
		all = append(all, "each of "+n.Each)
	}
	all = append(all, n.Needs...)
	for _, id := range n.Maybe {
		all = append(all, id+" or that it was skipped")
	}
	if n.If {
		all = append(all, "that its condition holds")
	}
	return all
}

// Note describes in words what the state omits, such as how many operations have ended. It may be
// empty.
func (n *GraphNode) Note() string {
	var all []string
	switch {
	case n.Open > 0 && n.Operations > 1:
		all = append(all, fmt.Sprintf("%d of %d have ended", n.Operations-n.Open, n.Operations))
	case n.Operations > 1:
		all = append(all, fmt.Sprintf("%d operations", n.Operations))
	}
	if n.Failed > 0 && n.Operations > 1 {
		all = append(all, fmt.Sprintf("%d failed", n.Failed))
	}
	switch {
	case n.State == NodeFailed && n.MayFail:
		all = append(all, "counts as skipped")
	case n.State == NodeDone && n.Seq == 0:
		all = append(all, "there was nothing to do")
	case n.State == NodeSkipped && n.Each != "" && n.If:
		all = append(all, "or there was nothing to do")
	}
	return strings.Join(all, ", ")
}

// The states of a node.
const (
	NodeDone       = "done"        // all operations of the node have ended
	NodeRunning    = "running"     // an attempt of a step is running
	NodeRetrying   = "retrying"    // an attempt failed, and another one follows
	NodeWaiting    = "waiting"     // for a worker, a limit, a message, a time, another run
	NodeFailed     = "failed"      //
	NodeStopped    = "stopped"     // it was canceled, or the run ended before it
	NodeSkipped    = "skipped"     // its condition was false, or a node that it needs was skipped or counts as skipped
	NodeNotReached = "not reached" // it has not begun
)

// GraphStates returns the states of nodes.
func GraphStates() []string {
	return []string{NodeDone, NodeRunning, NodeRetrying, NodeWaiting, NodeFailed, NodeStopped, NodeSkipped, NodeNotReached}
}

// maxGraphNodes is the maximum number of nodes in a Graph.
const maxGraphNodes = 1000

// GraphSeen contains the facts in a log about a node that has begun.
type GraphSeen struct {
	ID           string
	First, Last  uint64 // numbers of its first event, and of the last event that ended an operation; 0 if none has ended
	Began, Ended time.Time
	Operations   int // operations that it has begun
	Open         int // operations that have not ended
	Failed       int // operations that have failed, without canceled ones
	Stopped      int // operations that were canceled
	// Doing is NodeRunning, NodeRetrying or NodeWaiting if an operation has not ended, or else
	// empty.
	Doing string
	// Lost reports that the last operation to end has failed.
	Lost bool
}

// GraphOf returns the progress of a run in the graph at a path, based on the part of the log that
// was read. An empty path selects the first graph. known contains the versions of its workflow in
// the catalog. It returns false if the run has no graph at the path.
func GraphOf(r *Run, path string, log *GraphLog, known []CatalogVersion) (Graph, bool) {
	paths := log.Paths()
	switch {
	case len(paths) == 0 && !log.Begun && (path == "" || path == GraphPath(r.Workflow)) && slices.ContainsFunc(known, func(v CatalogVersion) bool { return v.Graph != nil }):
		path = GraphPath(r.Workflow) // of which nothing has begun
	case path == "" && len(paths) > 0:
		path = paths[0]
	case log.by[path] == nil:
		return Graph{}, false
	}
	g := Graph{Run: r.ID, Path: path, Code: log.Build, States: map[string]int{}}
	if len(paths) > 1 {
		g.Paths = paths
	}
	seen := log.Seen(path)
	v, why := fitting(r, path, log.Build, seen, known)
	if v != nil {
		g.Build = v.Build
		g.Nodes = planned(r, v.Graph.Nodes, seen)
	} else {
		g.Why = why
		g.Nodes = begun(r, seen)
	}
	g.Total = len(g.Nodes)
	for i := range g.Nodes {
		g.States[g.Nodes[i].State]++
	}
	g.Nodes = g.Nodes[:min(len(g.Nodes), maxGraphNodes)]
	return g, true
}

// Graph returns the progress of a run in the graph at a path. An empty path selects the first
// graph. A run without a graph is a problem with the code notFound. It reads the whole log, but
// holds only the graphs in memory.
func (s *Service) Graph(ctx context.Context, ref, path string) (Graph, error) {
	ref, err := s.own(ctx, ref)
	if err != nil {
		return Graph{}, err
	}
	g, err := s.graph(ctx, ref, path)
	veil(s.who, &g)
	return g, err
}

// graph is [Service.Graph] without the check of the principal's rights.
func (s *Service) graph(ctx context.Context, ref, path string) (Graph, error) {
	h, info, err := s.find(ctx, ref)
	if err != nil {
		return Graph{}, err
	}
	var log GraphLog
	if info.Events > 0 {
		for e, err := range h.Events(ctx) {
			if err != nil {
				return Graph{}, fmt.Errorf("read the log of run %s: %w", info.ID, err)
			}
			one := eventOf(&e)
			if log.Add(&one); e.Seq >= info.Events {
				break
			}
		}
	}
	var known []CatalogVersion
	page, err := s.Catalog(ctx, CatalogFilter{Workflow: info.Workflow, Limit: 1})
	if err != nil && !errors.Is(err, workflow.ErrNotSupported) {
		return Graph{}, err
	}
	for i := range page.Workflows {
		known = page.Workflows[i].Versions
	}
	r := runOf(&info)
	g, ok := GraphOf(&r, path, &log, known)
	if !ok {
		at := ""
		if path != "" {
			at = fmt.Sprintf(" at %q", path)
		}
		return Graph{}, NewProblem(CodeNotFound, fmt.Sprintf("run %s executes no graph%s", info.ID, at), "graphs are structs under //flow:dag, and what workflow code builds with workflow.NewGraph: see what else the run has begun")
	}
	return g, nil
}

// fitting returns the version from the catalog whose graph is consistent with the log: that of the
// build which executes the run if possible, otherwise the newest one. It returns nil and the reason
// if there is none.
func fitting(r *Run, path, build string, seen []GraphSeen, known []CatalogVersion) (v *CatalogVersion, why string) {
	why = "no build has said which node needs which, as when code builds the graph while it runs"
	var all []*CatalogVersion
	for i := range known {
		switch g := known[i].Graph; {
		case g == nil || path != GraphPath(r.Workflow):
		case g.TooMany > 0:
			why = fmt.Sprintf("the graph has %d nodes, more than the catalogue keeps", g.TooMany)
		default:
			all = append(all, &known[i])
		}
	}
	slices.SortStableFunc(all, func(a, b *CatalogVersion) int { // from the newest to the oldest
		rank := func(v *CatalogVersion) int {
			if v.Build == build {
				return 0
			}
			return 1
		}
		return rank(a) - rank(b)
	})
	for i, v := range all {
		wrong := contradiction(v.Graph.Nodes, seen)
		if wrong == "" {
			return v, ""
		}
		if i == 0 {
			why = fmt.Sprintf("the graph of build %s does not fit what this run has done: %s", v.Build, wrong)
		}
	}
	return nil, why
}

// GraphPath returns the path of the graph of a workflow that is a struct under //flow:dag.
func GraphPath(workflow string) string {
	return workflow[strings.LastIndexByte(workflow, '.')+1:] + "/graph#1"
}

// contradiction describes why a run of a graph cannot have produced the log. It returns the empty
// string if it can.
func contradiction(nodes []CatalogNode, seen []GraphSeen) string {
	plan := make(map[string]*CatalogNode, len(nodes))
	for i := range nodes {
		plan[nodes[i].ID] = &nodes[i]
	}
	begun := make(map[string]*GraphSeen, len(seen))
	for i := range seen {
		begun[seen[i].ID] = &seen[i]
	}
	for i := range seen {
		s := &seen[i]
		n := plan[s.ID]
		if n == nil {
			return fmt.Sprintf("node %q has begun, which it does not have", s.ID)
		}
		if n.Each == "" && s.Operations > 1 {
			return fmt.Sprintf("node %q has begun more than one step, which it does not declare", s.ID)
		}
		for _, id := range n.Before() {
			before := begun[id]
			switch {
			case before != nil && (before.Doing != "" || before.Last > s.First):
				return fmt.Sprintf("node %q has begun before %q had ended, which it needs", s.ID, id)
			case before == nil && plan[id].Each == "" && !slices.Contains(n.Maybe, id):
				return fmt.Sprintf("node %q has begun, and not %q, without which it is skipped", s.ID, id)
			}
		}
	}
	return ""
}

// planned returns the nodes of a graph with their progress.
func planned(r *Run, nodes []CatalogNode, seen []GraphSeen) []GraphNode {
	begun := make(map[string]*GraphSeen, len(seen))
	for i := range seen {
		begun[seen[i].ID] = &seen[i]
	}
	passed := map[string]bool{} // nodes that have ended, because a dependent node has begun or is in passed
	for _, n := range slices.Backward(nodes) {
		if begun[n.ID] != nil || passed[n.ID] {
			for _, id := range n.Before() {
				passed[id] = true
			}
		}
	}
	at := make(map[string]int, len(nodes))
	all := make([]GraphNode, 0, len(nodes))
	for _, n := range nodes {
		g := GraphNode{ID: n.ID, Each: n.Each, Needs: n.Needs, Maybe: n.Maybe, If: n.If, MayFail: n.MayFail}
		skipped := false
		for _, id := range n.Before() {
			before := &all[at[id]]
			g.Layer = max(g.Layer, before.Layer+1)
			lost := before.State == NodeSkipped || before.State == NodeFailed && before.MayFail
			skipped = skipped || lost && !slices.Contains(n.Maybe, id)
		}
		switch s := begun[n.ID]; {
		case s != nil:
			g.saw(r, s)
			if g.State == NodeDone && s.Failed > 0 {
				g.State = NodeFailed
			}
		case skipped:
			g.State = NodeSkipped
		case !passed[n.ID] && r.Status != "completed":
			g.State = NodeNotReached
		case n.Each != "" && !n.If:
			g.State = NodeDone // there were no elements
		default:
			g.State = NodeSkipped
		}
		at[n.ID] = len(all)
		all = append(all, g)
	}
	return all
}

// begun returns the nodes in a log, with layers derived from the times of their events.
func begun(r *Run, seen []GraphSeen) []GraphNode {
	ends := make([]int, 0, len(seen)) // of the nodes that have ended, in the order of their ends
	for i := range seen {
		if seen[i].Doing == "" {
			ends = append(ends, i)
		}
	}
	slices.SortFunc(ends, func(a, b int) int { return cmp.Compare(seen[a].Last, seen[b].Last) })
	all := make([]GraphNode, len(seen))
	next := 0
	for i := range seen {
		g := &all[i]
		g.ID = seen[i].ID
		for ; len(ends) > 0 && seen[ends[0]].Last < seen[i].First; ends = ends[1:] {
			next = max(next, all[ends[0]].Layer+1)
		}
		g.Layer = next
		g.saw(r, &seen[i])
		if g.State == NodeDone && seen[i].Lost {
			g.State = NodeFailed
		}
	}
	return all
}

// saw sets the fields of a node from the facts of a log.
func (n *GraphNode) saw(r *Run, s *GraphSeen) {
	n.Seq, n.Began, n.Ended, n.Operations, n.Open, n.Failed = s.First, utc(s.Began), utc(s.Ended), s.Operations, s.Open, s.Failed
	switch {
	case s.Doing != "" && r.EndedAt.IsZero():
		n.State = s.Doing
		n.Ended = time.Time{}
	case s.Doing != "":
		n.State, n.Ended = NodeStopped, r.EndedAt
	case s.Stopped > 0 && s.Failed == 0:
		n.State = NodeStopped
	default:
		n.State = NodeDone
	}
}
