package admin

import (
	"cmp"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
)

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
