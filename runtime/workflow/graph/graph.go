// Package graph executes work that is ordered only by dependencies, in workflow code. The generator
// writes code with this package for structs annotated with //flow:dag. Workflow code uses it
// directly for graphs that are built from data. Other workflow code needs only package workflow.
package graph

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// A Graph is work that is ordered only by dependencies. A node begins when the last node that it
// depends on has ended, independently of all other nodes. Workflow code builds a graph with
// [AddNode] and [AddEach], possibly from data, and executes it with Run. The nodes are branches,
// like those of [workflow.Go], and the keys of their steps contain the IDs of the nodes. Nodes that
// can begin at the same time begin in the order in which they were added. This order must not
// change while runs are open, so sort the elements of a map.
//
// A node is skipped if its condition returns false ([Node.If]), if it fails and counts as skipped
// in that case ([Node.SkipOnFailure]), or if a node that it depends on was skipped, unless the
// dependency is a Maybe.
//
// The first failure, in the order of the log, cancels the other nodes. Run waits for them and
// returns that failure. With [FinishOthers], the nodes that do not depend on the failed node
// continue. Run then returns all failures, joined in the order of the log. The cancellation of the
// graph itself counts as one failure, regardless of the number of nodes that it ends.
type Graph struct {
	nodes    []*node
	byID     map[string]*node
	finish   bool
	begun    bool
	failures []error
	cut      bool // failures contains the end of the context
}

// Option changes how a graph is executed.
type Option func(*Graph)

// FinishOthers lets the nodes that do not depend on a failed node continue.
func FinishOthers() Option { return func(g *Graph) { g.finish = true } }

// New returns a graph without nodes.
func New(opts ...Option) *Graph {
	g := &Graph{byID: map[string]*node{}}
	for _, opt := range opts {
		opt(g)
	}
	return g
}

// node is the part of a node that does not depend on its type.
type node struct {
	id      string
	typ     reflect.Type
	at      *replay.Trace
	run     func(workflow.Context) error
	value   func() any
	cond    func() bool
	mayFail bool
	needs   []dependency

	next    []edge // nodes that depend on this node, one edge for each dependency
	pending int    // number of dependencies that have not ended
	skips   bool   // a node was skipped on which this node depends without Maybe
	state   nodeState
	err     error
}

// edge leads from a node to a node that depends on it.
type edge struct {
	to    *node
	maybe bool
}

// nodeState is the progress of a node. Error texts contain it.
type nodeState string

// The states of a node. If a node never begins because another node has failed, it remains in
// nodeWaits.
const (
	nodeWaits   nodeState = "has not begun"
	nodeRuns    nodeState = "has not ended"
	nodeDone    nodeState = "is done"
	nodeSkipped nodeState = "was skipped"
	nodeFailed  nodeState = "has failed"
)

// dependency is a condition for the begin of a node.
type dependency struct {
	g     *Graph
	id    string
	typ   reflect.Type // type to which the result of the node must be assignable
	maybe bool         // the node may be skipped
}

// Dependency makes a node wait for another node. It is a *[Node], a *[NodeRef], or the result of
// their methods Maybe.
type Dependency interface{ dependency() dependency }

func (d dependency) dependency() dependency { return d }

func (d dependency) orSkipped() Dependency {
	d.maybe = true
	return d
}

// Source is a *[Node] or a *[NodeRef] with a result of type T.
type Source[T any] interface {
	Dependency
	Value() T
}

// Node is a node of a graph whose code returns a T.
type Node[T any] struct {
	g      *Graph
	n      *node
	result T
}

// AddNode adds a node that calls run when all its dependencies have ended. run receives the context
// of the node's branch. The ID is part of the keys of the steps that run calls. It consists of
// letters, digits and the characters -_.: only. Changing the ID while runs are open is an
// incompatible change of the workflow. The method Run reports faults of the graph before any node
// begins.
func AddNode[T any](g *Graph, id string, run func(workflow.Context) (T, error), needs ...Dependency) *Node[T] {
	return addNode(g, id, replay.Here(1), run, needs)
}

// AddEach adds a node that calls run for each element of the result of the node over, each in its
// own branch, as [workflow.Map] does. The result of the node contains the results in the order of
// the elements.
func AddEach[A, B any, S ~[]A](g *Graph, id string, over Source[S], run func(workflow.Context, A) (B, error), needs ...Dependency) *Node[[]B] {
	return addNode(g, id, replay.Here(1), func(ctx workflow.Context) ([]B, error) {
		return workflow.Map(ctx, over.Value(), run)
	}, append([]Dependency{over}, needs...))
}

func addNode[T any](g *Graph, id string, at *replay.Trace, run func(workflow.Context) (T, error), needs []Dependency) *Node[T] {
	if g.begun {
		panic(&replay.MisuseError{Text: fmt.Sprintf("graph: node %q is added to a graph that has started: build another graph in a node", id)})
	}
	n := &node{id: id, typ: reflect.TypeFor[T](), at: at, state: nodeWaits}
	x := &Node[T]{g: g, n: n}
	n.value = func() any { return x.Value() }
	n.run = func(ctx workflow.Context) (err error) {
		x.result, err = run(ctx)
		return err
	}
	for i, d := range needs {
		if d == nil {
			panic(&replay.MisuseError{Text: fmt.Sprintf("graph: dependency %d of node %q is nil", i+1, id)})
		}
		n.needs = append(n.needs, d.dependency())
	}
	g.nodes = append(g.nodes, n)
	if g.byID[id] == nil {
		g.byID[id] = n
	}
	return x
}

func (x *Node[T]) dependency() dependency { return dependency{g: x.g, id: x.n.id, typ: x.n.typ} }

// If sets the condition of the node, which is evaluated when all its dependencies have ended. If
// the condition is false, the node is skipped. The condition may depend only on the results of the
// node's dependencies and on the input of the run.
func (x *Node[T]) If(cond func() bool) *Node[T] {
	x.n.cond = cond
	return x
}

// SkipOnFailure makes the node count as skipped if it fails. Err returns its error nevertheless.
func (x *Node[T]) SkipOnFailure() *Node[T] {
	x.n.mayFail = true
	return x
}

// Value returns the result of the node. It panics if the node has no result. Call it in a node that
// depends on this node, or after Run. For a node that may be skipped, use Pointer.
func (x *Node[T]) Value() T {
	if x.n.state != nodeDone {
		panic(&replay.MisuseError{Text: fmt.Sprintf("graph: node %q %s and has no value: read it in a node that needs this one, or after Run, "+
			"and read results of nodes that may be skipped with Pointer", x.n.id, x.n.state)})
	}
	return x.result
}

// Pointer returns a pointer to the result of the node, or nil if the node was skipped. If the node
// has not ended or has failed, it panics like Value.
func (x *Node[T]) Pointer() *T {
	if x.n.state == nodeSkipped {
		return nil
	}
	v := x.Value()
	return &v
}

// Err returns the error of a node that has failed, even if the node counts as skipped. It returns
// nil for other nodes.
func (x *Node[T]) Err() error { return x.n.err }

// Maybe returns a dependency that is satisfied even if this node was skipped.
func (x *Node[T]) Maybe() Dependency { return x.dependency().orSkipped() }

// NodeRef refers to a node of a graph by its ID.
type NodeRef[T any] struct{ d dependency }

// NodeOf returns a reference to the node with the given ID. Use it for graphs that are built from
// data: the node may be added after the call of NodeOf. Run returns a *[Error] if the node does not
// exist, or if its result is not assignable to T. If only the end of the node matters, use
// NodeOf[any].
func NodeOf[T any](g *Graph, id string) *NodeRef[T] {
	return &NodeRef[T]{dependency{g: g, id: id, typ: reflect.TypeFor[T]()}}
}

func (x *NodeRef[T]) dependency() dependency { return x.d }

// Value is like [Node.Value].
func (x *NodeRef[T]) Value() T {
	n := x.d.g.byID[x.d.id]
	if n == nil {
		panic(&replay.MisuseError{Text: fmt.Sprintf("graph: there is no node %q", x.d.id)})
	}
	had := n.value()
	v, ok := had.(T)
	if !ok && had != nil {
		panic(&replay.MisuseError{Text: fmt.Sprintf("graph: the result of node %q is %T, and was requested as %v", x.d.id, had, x.d.typ)})
	}
	return v
}

// Pointer is like [Node.Pointer].
func (x *NodeRef[T]) Pointer() *T {
	if n := x.d.g.byID[x.d.id]; n != nil && n.state == nodeSkipped {
		return nil
	}
	v := x.Value()
	return &v
}

// Maybe is like [Node.Maybe].
func (x *NodeRef[T]) Maybe() Dependency { return x.d.orSkipped() }

// Run executes the graph. It may be called once. If the graph has a fault, Run begins no node and
// returns a *[Error]. Otherwise it returns the failures of nodes. When Run returns, all nodes that
// have begun have ended.
func (g *Graph) Run(ctx workflow.Context) error {
	if g.begun {
		panic(&replay.MisuseError{Text: "graph: Run is called twice on a graph: build another graph"})
	}
	if err := g.check(); err != nil {
		return err
	}
	g.begun = true
	for _, n := range g.nodes {
		n.pending = len(n.needs)
		for _, d := range n.needs {
			to := g.byID[d.id]
			to.next = append(to.next, edge{n, d.maybe})
		}
	}
	ctx, cancel := workflow.WithCancel(ctx)
	defer cancel()
	r := graphRun{g: g, base: flow.Context(ctx).Branch().Key("graph") + ".", cancel: cancel}
	for _, n := range g.nodes {
		if n.pending == 0 && n.state == nodeWaits {
			r.begin(ctx, n)
		}
	}
	// All branches end at the latest when ctx ends, so this loop waits for all of them.
	for i := 0; i < len(r.branches); i++ { //nolint:intrange // it grows while the loop waits
		b := r.branches[i]
		_, _ = flow.Context(ctx).Branch().Await(flow.Context(ctx).Scope(), b.ended, "branch "+b.path)
	}
	switch {
	case len(g.failures) > 0 && !g.finish:
		return g.failures[0]
	case len(g.failures) == 0 && slices.ContainsFunc(g.nodes, func(n *node) bool { return n.state == nodeWaits }):
		return ctx.Err()
	}
	return errors.Join(g.failures...) // nil if the context has not ended, or has ended after all nodes
}

type graphRun struct {
	g        *Graph
	base     string // prefix of the paths of the branches
	cancel   workflow.CancelFunc
	branches []branch
}

type branch struct {
	path  string
	ended *replay.Promise
}

// begin opens the branch of a node, or skips the node. At its end, the branch begins the nodes that
// have waited for this node. Therefore each node has its own path and keys, and begins without
// delay.
func (r *graphRun) begin(ctx workflow.Context, n *node) {
	if n.skips || n.cond != nil && !n.cond() {
		r.end(ctx, n, nodeSkipped)
		return
	}
	n.state = nodeRuns
	path := r.base + n.id
	ended := flow.Context(ctx).Open(path, n.at, func(fctx flow.Context) any {
		ctx := workflow.Context(fctx)
		switch n.err = n.run(ctx); {
		case n.err == nil:
			r.end(ctx, n, nodeDone)
		case n.mayFail && ctx.Err() == nil:
			r.end(ctx, n, nodeSkipped)
		default:
			r.fail(ctx, n)
		}
		return nil
	})
	r.branches = append(r.branches, branch{path, ended})
}

// end records the end of a node that has not failed. It begins the nodes whose last dependency this
// node was.
func (r *graphRun) end(ctx workflow.Context, n *node, state nodeState) {
	n.state = state
	for _, next := range n.next {
		next.to.pending--
		next.to.skips = next.to.skips || !next.maybe && state == nodeSkipped
		if next.to.pending == 0 && ctx.Err() == nil {
			r.begin(ctx, next.to)
		}
	}
}

// fail records the failure of a node. If the end of the context makes several nodes fail, only the
// first failure is recorded.
func (r *graphRun) fail(ctx workflow.Context, n *node) {
	n.state = nodeFailed
	if ended := ctx.Err(); ended != nil && errors.Is(n.err, ended) {
		if r.g.cut {
			return
		}
		r.g.cut = true
	}
	r.g.failures = append(r.g.failures, n.err)
	if !r.g.finish {
		r.cancel()
	}
}

// Error contains all faults of a graph. Run returns it before any node begins.
type Error struct{ Faults []Fault }

// Fault is one fault of a graph.
type Fault struct {
	Kind FaultKind
	Node string // ID of the node
	// Need is the ID of a dependency that is unknown, belongs to another graph, or has a result of
	// the wrong type. In the last case, Has is the type of its result and Wants is the required
	// type.
	Need, Has, Wants string
	// Cycle contains the IDs of nodes, each of which depends on the next one. The last ID equals
	// the first.
	Cycle []string
}

// FaultKind is a kind of fault.
type FaultKind string

// The kinds of faults.
const (
	BadID     FaultKind = "bad id"      // an ID is empty, longer than 200 bytes, or has characters other than letters, digits and -_.:
	Duplicate FaultKind = "duplicate"   // two nodes have the same ID
	Unknown   FaultKind = "unknown"     // a node depends on a node that does not exist
	Foreign   FaultKind = "other graph" // a node depends on a node of another graph
	WrongType FaultKind = "type"        // a node uses the result of another node as another type
	Cycle     FaultKind = "cycle"       // nodes depend on one another
)

// Error returns a text that contains all faults.
func (e *Error) Error() string {
	all := make([]string, len(e.Faults))
	for i := range e.Faults {
		all[i] = e.Faults[i].String()
	}
	return "graph: " + strings.Join(all, "; ")
}

// String returns a description of the fault and of the fix.
func (f *Fault) String() string {
	switch f.Kind {
	case BadID:
		return fmt.Sprintf("the id %q is not one to 200 letters, digits and -_.:", f.Node)
	case Duplicate:
		return fmt.Sprintf("two nodes have the id %q: give one of them another", f.Node)
	case Unknown:
		return fmt.Sprintf("node %q needs %q, which does not exist", f.Node, f.Need)
	case Foreign:
		return fmt.Sprintf("node %q needs %q of another graph: read its value after the Run of that graph", f.Node, f.Need)
	case WrongType:
		return fmt.Sprintf("node %q takes the result of %q as %s: it is %s", f.Node, f.Need, f.Wants, f.Has)
	case Cycle:
		return "nodes need each other: " + strings.Join(f.Cycle, " → ")
	}
	return string(f.Kind)
}

// check returns an *Error with all faults of the graph, or nil if it has none.
func (g *Graph) check() error {
	var faults []Fault
	for _, n := range g.nodes {
		if !goodNodeID(n.id) {
			faults = append(faults, Fault{Kind: BadID, Node: n.id})
		}
		if g.byID[n.id] != n {
			faults = append(faults, Fault{Kind: Duplicate, Node: n.id})
		}
		for _, d := range n.needs {
			switch to := g.byID[d.id]; {
			case d.g != g:
				faults = append(faults, Fault{Kind: Foreign, Node: n.id, Need: d.id})
			case to == nil:
				faults = append(faults, Fault{Kind: Unknown, Node: n.id, Need: d.id})
			case !to.typ.AssignableTo(d.typ):
				faults = append(faults, Fault{Kind: WrongType, Node: n.id, Need: d.id, Has: to.typ.String(), Wants: d.typ.String()})
			}
		}
	}
	faults = append(faults, g.cycles()...)
	if len(faults) == 0 {
		return nil
	}
	return &Error{faults}
}

// goodNodeID reports whether an ID may be part of keys.
func goodNodeID(id string) bool {
	return id != "" && len(id) <= 200 && strings.IndexFunc(id, func(r rune) bool {
		return r == unicode.ReplacementChar || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("-_.:", r)
	}) < 0
}

// cycles returns one fault for each group of nodes that depend on one another.
func (g *Graph) cycles() (faults []Fault) {
	const open, done = 1, 2
	seen := map[*node]int{}
	var path []*node
	var visit func(n *node)
	visit = func(n *node) {
		seen[n], path = open, append(path, n)
		for _, d := range n.needs {
			switch to := g.byID[d.id]; {
			case to == nil || d.g != g:
			case seen[to] == open:
				var cycle []string
				for _, v := range path[slices.Index(path, to):] {
					cycle = append(cycle, v.id)
				}
				faults = append(faults, Fault{Kind: Cycle, Node: to.id, Cycle: append(cycle, to.id)})
			case seen[to] == 0:
				visit(to)
			}
		}
		seen[n], path = done, path[:len(path)-1]
	}
	for _, n := range g.nodes {
		if seen[n] == 0 {
			visit(n)
		}
	}
	return faults
}
