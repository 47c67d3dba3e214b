package workflow

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// A Graph is work that only its dependencies order: a node begins when the last node that it
// depends on has ended, whatever the others do. Workflow code builds it with [AddNode] and
// [AddEach], from data if need be, and executes it with Run. Its nodes are branches, as those of
// [Go], and the keys of their steps contain the ids of the nodes. Nodes that can begin at the same
// time begin in the order in which they were added, which must not change while runs are under
// way: sort what a map holds.
//
// A node is skipped if its condition says no ([Node.If]), if it has failed and may do so
// ([Node.SkipOnFailure]), or if a node that it depends on was skipped, unless the dependency
// is a Maybe.
//
// The first failure, in the order of the log, cancels the other nodes; Run waits for them and
// returns that failure. With [FinishOthers] the nodes that do not depend on it go on, and Run returns
// all failures, joined in the order of the log. That the graph itself is canceled is one failure, however
// many nodes it ends.
type Graph struct {
	nodes    []*node
	byID     map[string]*node
	finish   bool
	begun    bool
	failures []error
	cut      bool // one of these is that the context has ended
}

// GraphOption changes how a graph is executed.
type GraphOption func(*Graph)

// FinishOthers lets a failure end only the nodes that depend on it.
func FinishOthers() GraphOption { return func(g *Graph) { g.finish = true } }

// NewGraph returns a graph without nodes.
func NewGraph(opts ...GraphOption) *Graph {
	g := &Graph{byID: map[string]*node{}}
	for _, opt := range opts {
		opt(g)
	}
	return g
}

// node is a node of any type.
type node struct {
	id      string
	typ     reflect.Type
	at      *replay.Trace
	run     func(Context) error
	value   func() any
	cond    func() bool
	mayFail bool
	needs   []dependency

	next    []edge // to those that depend on it, for each of their dependencies
	pending int    // dependencies that have not ended
	skips   bool   // one of them was skipped that must not be
	state   nodeState
	err     error
}

// edge leads to a node that depends on another one.
type edge struct {
	to    *node
	maybe bool
}

// nodeState is how far a node is, in words that an error can use.
type nodeState string

// The states of a node. One that does not begin since another one has failed, waits.
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
	typ   reflect.Type // that its value must have
	maybe bool         // it may be skipped
}

// Dependency says that a node waits for another one: a *[Node] or a *[NodeRef] for its result,
// or the Maybe of one.
type Dependency interface{ dependency() dependency }

func (d dependency) dependency() dependency { return d }

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

// AddNode adds a node that calls run when all that it needs has ended. run gets the context of
// the node's branch. The id is a part of the keys of the steps that run calls: it is made of letters,
// digits and -_.: only, and whoever changes it while runs are under way changes the code of a workflow.
// What is wrong with the graph is returned by Run, before any node begins.
func AddNode[T any](g *Graph, id string, run func(Context) (T, error), needs ...Dependency) *Node[T] {
	x := &Node[T]{g: g}
	x.n = g.add(id, reflect.TypeFor[T](), replay.Here(1), needs)
	x.n.value = func() any { return x.Value() }
	x.n.run = func(ctx Context) (err error) {
		x.result, err = run(ctx)
		return err
	}
	return x
}

// AddEach adds a node that calls run for each element of the result of another node, each in a
// branch of its own as [Map] does. Its result has theirs in the order of the elements.
func AddEach[A, B any, S ~[]A](g *Graph, id string, over Source[S], run func(Context, A) (B, error), needs ...Dependency) *Node[[]B] {
	x := &Node[[]B]{g: g}
	x.n = g.add(id, reflect.TypeFor[[]B](), replay.Here(1), append([]Dependency{over}, needs...))
	x.n.value = func() any { return x.Value() }
	x.n.run = func(ctx Context) (err error) {
		x.result, err = Map(ctx, over.Value(), run)
		return err
	}
	return x
}

func (g *Graph) add(id string, typ reflect.Type, at *replay.Trace, needs []Dependency) *node {
	if g.begun {
		panic(&replay.MisuseError{Text: fmt.Sprintf("workflow: node %q is added to a graph that has begun: build another graph in a node", id)})
	}
	n := &node{id: id, typ: typ, at: at, state: nodeWaits}
	for i, d := range needs {
		if d == nil {
			panic(&replay.MisuseError{Text: fmt.Sprintf("workflow: dependency %d of node %q is nil", i+1, id)})
		}
		n.needs = append(n.needs, d.dependency())
	}
	g.nodes = append(g.nodes, n)
	if g.byID[id] == nil {
		g.byID[id] = n
	}
	return n
}

func (x *Node[T]) dependency() dependency { return dependency{g: x.g, id: x.n.id, typ: x.n.typ} }

// If gives the node a condition, which is asked when all that it needs has ended; if it says no, the node is skipped.
// The condition looks at nothing but what the node needs and the input of the run.
func (x *Node[T]) If(cond func() bool) *Node[T] {
	x.n.cond = cond
	return x
}

// SkipOnFailure lets the node count as skipped if it fails. Err has its error.
func (x *Node[T]) SkipOnFailure() *Node[T] {
	x.n.mayFail = true
	return x
}

// Value returns the result of the node. It panics if there is none: call it in a node that
// needs this one, or after Run, and take what may be skipped by Pointer.
func (x *Node[T]) Value() T {
	if x.n.state != nodeDone {
		panic(&replay.MisuseError{Text: fmt.Sprintf("workflow: node %q %s and has no value: ask for it in a node that needs this one, or after Run, "+
			"and take what may be skipped by Pointer", x.n.id, x.n.state)})
	}
	return x.result
}

// Pointer returns a pointer to the result of the node, nil if the node was skipped. Otherwise
// it is as Value.
func (x *Node[T]) Pointer() *T {
	if x.n.state == nodeSkipped {
		return nil
	}
	v := x.Value()
	return &v
}

// Err returns the error of a node that has failed, even if it counts as skipped.
func (x *Node[T]) Err() error { return x.n.err }

// Maybe returns a dependency on the node for one that begins even if this one was skipped.
func (x *Node[T]) Maybe() Dependency {
	d := x.dependency()
	d.maybe = true
	return d
}

// NodeRef names a node of a graph by its id.
type NodeRef[T any] struct{ d dependency }

// NodeOf returns a reference to the node with an id, for graphs that come from data: the node may be
// added later. Run returns a *[GraphError] if there is none, or if its result is not assignable
// to T; NodeOf[any] is for whoever needs only its end.
func NodeOf[T any](g *Graph, id string) *NodeRef[T] {
	return &NodeRef[T]{dependency{g: g, id: id, typ: reflect.TypeFor[T]()}}
}

func (x *NodeRef[T]) dependency() dependency { return x.d }

// Value is [Node.Value].
func (x *NodeRef[T]) Value() T {
	n := x.d.g.byID[x.d.id]
	if n == nil {
		panic(&replay.MisuseError{Text: fmt.Sprintf("workflow: there is no node %q", x.d.id)})
	}
	had := n.value()
	v, ok := had.(T)
	if !ok && had != nil {
		panic(&replay.MisuseError{Text: fmt.Sprintf("workflow: the result of node %q is %T, and was asked for as %v", x.d.id, had, x.d.typ)})
	}
	return v
}

// Pointer is [Node.Pointer].
func (x *NodeRef[T]) Pointer() *T {
	if n := x.d.g.byID[x.d.id]; n != nil && n.state == nodeSkipped {
		return nil
	}
	v := x.Value()
	return &v
}

// Maybe is [Node.Maybe].
func (x *NodeRef[T]) Maybe() Dependency {
	d := x.d
	d.maybe = true
	return d
}

// Run executes the graph, once. It returns a *[GraphError] if something is wrong with the
// graph, and nothing has begun; otherwise the failures of nodes. When it returns all nodes
// have ended that have begun.
func (g *Graph) Run(ctx Context) error {
	if g.begun {
		panic(&replay.MisuseError{Text: "workflow: a graph is run twice: build another one"})
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
	ctx, cancel := WithCancel(ctx)
	defer cancel()
	r := graphRun{g: g, base: ctx.branch().Key("graph") + ".", cancel: cancel}
	for _, n := range g.nodes {
		if n.pending == 0 && n.state == nodeWaits {
			r.begin(ctx, n)
		}
	}
	// The branches end by themselves once the context does: their outcome decides.
	for i := 0; i < len(r.branches); i++ { //nolint:intrange // it grows while the loop waits
		_, _ = r.branches[i].Get(ctx)
	}
	if len(g.failures) == 0 {
		if slices.ContainsFunc(g.nodes, func(n *node) bool { return n.state == nodeWaits }) {
			return ctx.Err()
		}
		return nil // the context has ended too late, or not at all
	}
	if !g.finish {
		return g.failures[0]
	}
	return errors.Join(g.failures...)
}

// graphRun is a graph that is executed.
type graphRun struct {
	g        *Graph
	base     string // of the paths of branches
	cancel   CancelFunc
	branches []*Future[None]
}

// begin opens the branch of a node, or skips it. When the branch ends it begins those that
// have waited for it: so each node has a path, and keys, of its own, and begins at once.
func (r *graphRun) begin(ctx Context, n *node) {
	if n.skips || n.cond != nil && !n.cond() {
		r.end(ctx, n, nodeSkipped)
		return
	}
	n.state = nodeRuns
	r.branches = append(r.branches, open(ctx, r.base+n.id, n.at, func(ctx Context) (None, error) {
		switch n.err = n.run(ctx); {
		case n.err == nil:
			r.end(ctx, n, nodeDone)
		case n.mayFail && ctx.Err() == nil:
			r.end(ctx, n, nodeSkipped)
		default:
			r.fail(ctx, n)
		}
		return None{}, nil
	}))
}

// end notes the end of a node that has not failed, and begins those that waited for it last.
func (r *graphRun) end(ctx Context, n *node, state nodeState) {
	n.state = state
	for _, next := range n.next {
		next.to.pending--
		next.to.skips = next.to.skips || !next.maybe && state == nodeSkipped
		if next.to.pending == 0 && ctx.Err() == nil {
			r.begin(ctx, next.to)
		}
	}
}

// fail notes the failure of a node. Those of nodes that the end of the context has ended are one.
func (r *graphRun) fail(ctx Context, n *node) {
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
