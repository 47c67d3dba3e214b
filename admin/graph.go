package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Graph is the progress of a run in a graph. The graph is either a struct with //flow:dag, or built
// by workflow code (graph.New).
//
// A log contains the nodes that have begun, but not their dependencies. For a struct, the catalog
// contains the dependencies of each build. They are used if they are consistent with all operations
// of the run. Otherwise, and for graphs that workflow code builds, the nodes are in the order of
// the log.
type Graph struct {
	Run   string   `json:"run"`
	Path  string   `json:"path"`            // key prefix of the operations of the graph's nodes, such as research/graph#1
	Paths []string `json:"paths,omitempty"` // paths of the first 100 graphs that the run has begun, if there is more than one
	// Build is the build whose dependencies are used. If it is empty, the dependencies are unknown,
	// and Why is the reason.
	Build string `json:"build,omitempty"`
	Why   string `json:"why,omitempty"`
	Code  string `json:"code,omitempty"` // the build that executed the run last
	// States contains the number of nodes in each state. See [GraphStates]. Nodes that have not
	// begun are included only if Build is set.
	States map[string]int `json:"states"`
	// Nodes are the first 1,000 nodes. They are in topological order if Build is set, and otherwise
	// in the order in which they began.
	Nodes []GraphNode `json:"nodes"`
	Total int         `json:"total"` // total number of nodes
}

// GraphNode is the progress of a node of a graph.
type GraphNode struct {
	ID    string `json:"id"`
	State string `json:"state"` // one of [GraphStates]
	// Layer is 0 for a node without dependencies. For other nodes, it is one more than the largest
	// layer of their dependencies. If Build is empty, Layer is derived from times: a node belongs
	// to the next layer if a node of the previous layer had ended when it began.
	Layer      int       `json:"layer"`
	Each       string    `json:"each,omitempty"`    // the node over whose result this node iterates, with one execution per element
	Needs      []string  `json:"needs,omitempty"`   // nodes that this node needs; if one of them is skipped, so is this node
	Maybe      []string  `json:"maybe,omitempty"`   // nodes that this node waits for, even if they are skipped
	If         bool      `json:"if,omitempty"`      // whether the node has a condition, so that it may be skipped
	MayFail    bool      `json:"mayFail,omitempty"` // whether the node counts as skipped if it fails
	Seq        uint64    `json:"seq,omitempty"`     // number of the first event; 0 if the node has not begun
	Began      time.Time `json:"began,omitzero"`
	Ended      time.Time `json:"ended,omitzero"`
	Operations int       `json:"operations,omitempty"` // number of operations that the node has begun, such as steps
	Open       int       `json:"open,omitempty"`       // number of operations that have not ended
	Failed     int       `json:"failed,omitempty"`     // number of operations that have failed
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

// Note adds details to the state in words, such as how many operations have ended. It may be empty.
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
	NodeDone       = "done"     // all operations of the node have ended
	NodeRunning    = "running"  // an attempt of a step is running
	NodeRetrying   = "retrying" // an attempt failed, and another one follows
	NodeWaiting    = "waiting"  // waiting for a worker, a limit, a message, a time or another run
	NodeFailed     = "failed"
	NodeStopped    = "stopped"     // the node was canceled, or the run ended before the node did
	NodeSkipped    = "skipped"     // its condition was false, or a node that it needs is skipped
	NodeNotReached = "not reached" // the node has not begun
)

// GraphStates returns the states of nodes.
func GraphStates() []string {
	return []string{NodeDone, NodeRunning, NodeRetrying, NodeWaiting, NodeFailed, NodeStopped, NodeSkipped, NodeNotReached}
}

// maxGraphNodes is the maximum number of nodes in a Graph.
const maxGraphNodes = 1000

// GraphSeen contains the data from a log about a node that has begun.
type GraphSeen struct {
	ID           string
	First, Last  uint64 // numbers of the first event, and of the last event that ended an operation; Last is 0 if no operation has ended
	Began, Ended time.Time
	Operations   int // number of operations that the node has begun
	Open         int // number of operations that have not ended
	Failed       int // number of operations that have failed, without canceled ones
	Stopped      int // number of operations that were canceled
	// Doing is NodeRunning, NodeRetrying or NodeWaiting if an operation has not ended, and empty
	// otherwise.
	Doing string
	// Lost reports whether the operation that ended last has failed.
	Lost bool
}

// GraphOf returns the progress of a run in the graph at a path, based on the events that log has
// read. An empty path selects the first graph. known contains the versions of the run's workflow in
// the catalog. GraphOf returns false if the run has no graph at the path.
func GraphOf(r *Run, path string, log *GraphLog, known []CatalogVersion) (Graph, bool) {
	paths := log.Paths()
	switch {
	case len(paths) == 0 && !log.Begun && (path == "" || path == GraphPath(r.Workflow)) && slices.ContainsFunc(known, func(v CatalogVersion) bool { return v.Graph != nil }):
		path = GraphPath(r.Workflow) // no node of this graph has begun
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
// graph. If the run has no graph there, Graph returns a problem with the code notFound. It reads
// the whole log, but holds only the graphs in memory.
func (s *Service) Graph(ctx context.Context, ref, path string) (Graph, error) {
	ref, err := s.own(ctx, ref)
	if err != nil {
		return Graph{}, err
	}
	g, err := s.graph(ctx, ref, path)
	veil(s.who, &g)
	return g, err
}

// graph is like [Service.Graph], but does not check the rights of the principal.
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
		return Graph{}, NewProblem(CodeNotFound, fmt.Sprintf("run %s executes no graph%s", info.ID, at), "graphs are structs under //flow:dag, and what workflow code builds with graph.New: see what else the run has begun")
	}
	return g, nil
}

// fitting returns a version from the catalog whose graph is consistent with the log. It prefers the
// version of the build that executes the run, then the newest version. If there is none, it returns
// nil and the reason.
func fitting(r *Run, path, build string, seen []GraphSeen, known []CatalogVersion) (v *CatalogVersion, why string) {
	why = "no build has described the dependencies, for example because code builds the graph at run time"
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
	slices.SortStableFunc(all, func(a, b *CatalogVersion) int { // the version of the given build first, then the others, the newest first
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
			why = fmt.Sprintf("the graph of build %s does not match the log of this run: %s", v.Build, wrong)
		}
	}
	return nil, why
}

// GraphPath returns the path of the graph of a workflow that is a struct under //flow:dag.
func GraphPath(workflow string) string {
	return workflow[strings.LastIndexByte(workflow, '.')+1:] + "/graph#1"
}

// contradiction describes why a run of a graph cannot have produced the log. It returns the empty
// string if the log is consistent with the graph.
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

// planned returns all nodes of a graph with their progress.
func planned(r *Run, nodes []CatalogNode, seen []GraphSeen) []GraphNode {
	begun := make(map[string]*GraphSeen, len(seen))
	for i := range seen {
		begun[seen[i].ID] = &seen[i]
	}
	passed := map[string]bool{} // nodes that must have ended, because a dependent node has begun or must have ended
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
			g.State = NodeDone // the input contained no elements
		default:
			g.State = NodeSkipped
		}
		at[n.ID] = len(all)
		all = append(all, g)
	}
	return all
}

// begun returns the nodes in a log. It derives their layers from the order of their events.
func begun(r *Run, seen []GraphSeen) []GraphNode {
	ends := make([]int, 0, len(seen)) // indexes of the nodes that have ended, in the order in which they ended
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

// saw sets the fields of the node from the data in s.
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

// GraphLog records the nodes of graphs that a run has begun, and their progress, from the events of
// its log. The zero value has recorded nothing.
type GraphLog struct {
	Build string // build of the code that executed the run last; empty if no event so far contains it
	Begun bool   // whether the run has begun an operation, in a graph or not

	paths []string
	by    map[string]*loggedGraph
	open  map[uint64][]openInGraph // open operations by the number of their first event
	size  int64
}

// loggedGraph is a graph with at least one node that has begun.
type loggedGraph struct {
	nodes []*loggedNode // in the order in which they began
	by    map[string]*loggedNode
}

// loggedNode is a node that has begun.
type loggedNode struct {
	GraphSeen
	doing map[string]int // number of open operations by activity
}

// openInGraph identifies the node to which an open operation belongs.
type openInGraph struct {
	node  *loggedNode
	doing string
}

// Approximate sizes of a node and of an open operation in bytes.
const (
	loggedNodeBytes = 400
	openBytes       = 96
)

// Size returns the approximate memory use in bytes.
func (l *GraphLog) Size() int64 { return l.size + int64(len(l.open))*openBytes }

// Paths returns the paths of the first 100 graphs, in the order in which they began.
func (l *GraphLog) Paths() []string { return l.paths[:min(len(l.paths), maxGraphPaths)] }

// maxGraphPaths is the maximum number of graphs of a run that are reported.
const maxGraphPaths = 100

// Seen returns the nodes of the graph at a path that have begun, in the order in which they began.
func (l *GraphLog) Seen(path string) []GraphSeen {
	g := l.by[path]
	if g == nil {
		return nil
	}
	all := make([]GraphSeen, len(g.nodes))
	for i, n := range g.nodes {
		all[i] = n.GraphSeen
	}
	return all
}

// Add records the next event of the log.
func (l *GraphLog) Add(e *Event) {
	if e.Build != "" {
		l.Build = strings.Clone(e.Build)
	}
	switch {
	case e.Creates && e.Type != event.RunCreated.String():
		l.Begun = true
		l.begin(e)
	case e.Ref != 0:
		l.apply(e)
	}
}

// begin records a new operation. The key of an operation is its path:
// research/graph#1.fetch/map#1.2/fetch#1 belongs to node fetch of research/graph#1. An operation in
// a nested graph belongs to a node of each of the two graphs.
func (l *GraphLog) begin(e *Event) {
	for at := 0; at < len(e.Key); {
		part, _, inner := strings.Cut(e.Key[at:], "/")
		if !inner {
			return // the last element of the path is the operation itself
		}
		number, id, ok := strings.Cut(part, ".")
		if n, graph := strings.CutPrefix(number, "graph#"); ok && graph && id != "" && strings.Trim(n, "0123456789") == "" {
			l.enter(e, e.Key[:at+len(number)], id)
		}
		at += len(part) + 1
	}
}

// enter records an operation of a node.
func (l *GraphLog) enter(e *Event, path, id string) {
	n := l.node(path, id)
	if n.Operations == 0 {
		n.First, n.Began = e.Seq, e.Time
	}
	n.Operations++
	n.Open++
	n.moves("", NodeWaiting)
	if l.open == nil {
		l.open = map[uint64][]openInGraph{}
	}
	l.open[e.Seq] = append(l.open[e.Seq], openInGraph{n, NodeWaiting})
}

// node returns the node with an ID in the graph at a path, and creates it if necessary.
func (l *GraphLog) node(path, id string) *loggedNode {
	g := l.by[path]
	if g == nil {
		if l.by == nil {
			l.by = map[string]*loggedGraph{}
		}
		path = strings.Clone(path)
		g = &loggedGraph{by: map[string]*loggedNode{}}
		l.by[path] = g
		l.paths = append(l.paths, path)
	}
	n := g.by[id]
	if n == nil {
		n = &loggedNode{GraphSeen: GraphSeen{ID: strings.Clone(id)}, doing: map[string]int{}}
		g.by[n.ID] = n
		g.nodes = append(g.nodes, n)
		l.size += loggedNodeBytes + int64(len(path)+len(id))
	}
	return n
}

// endings maps the types of events that end operations to whether the operation has failed.
var endings = func() map[string]bool {
	all := map[string]bool{}
	for _, t := range []event.Type{event.StepCompleted, event.WaitCompleted, event.HookDisposed, event.SendCompleted, event.ChildCompleted, event.AskAnswered} {
		all[t.String()] = false
	}
	for _, t := range []event.Type{event.StepFailed, event.HookConflict, event.SendFailed, event.ChildFailed, event.ChildCanceled, event.AskRefused} {
		all[t.String()] = true
	}
	return all
}()

// apply records an event of an operation that has begun.
func (l *GraphLog) apply(e *Event) {
	failed, ends := endings[e.Type]
	for i, o := range l.open[e.Ref] {
		n := o.node
		switch {
		case ends:
			n.moves(o.doing, "")
			n.Open--
			n.Last, n.Ended = e.Seq, e.Time
			n.Lost = false
			switch {
			case !failed:
			case e.Type == event.ChildCanceled.String() || e.Failure != nil && e.Failure.Code == event.CodeCanceled:
				n.Stopped++
			default:
				n.Failed++
				n.Lost = true
			}
		case e.Type == event.StepStarted.String():
			n.moves(o.doing, NodeRunning)
			l.open[e.Ref][i].doing = NodeRunning
		case e.Type == event.StepRetrying.String():
			n.moves(o.doing, NodeRetrying)
			l.open[e.Ref][i].doing = NodeRetrying
		}
	}
	if ends {
		delete(l.open, e.Ref)
	}
}

// moves records that an operation of the node changes its activity. An empty from or to means no
// activity. The node shows the most important activity of its open operations.
func (n *loggedNode) moves(from, to string) {
	if from != "" {
		n.doing[from]--
	}
	if to != "" {
		n.doing[to]++
	}
	busy := func(state string) string {
		if n.doing[state] > 0 {
			return state
		}
		return ""
	}
	n.Doing = cmp.Or(busy(NodeRunning), busy(NodeRetrying), busy(NodeWaiting))
}
