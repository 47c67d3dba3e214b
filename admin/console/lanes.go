package console

import (
	"slices"
	"strings"
)

// node is a lane of the timeline. It is the run itself, a branch of the run, or an operation.
type node struct {
	label, sub string
	path       string // path of an operation; see node.at
	parent     *node
	kids       []*node
	op         *operation
	fan        bool   // whether its children are many nodes of the same kind
	first      uint64 // number of its first event
	begin, end int64
	size       int // number of operations in the lane
	open, bad  int // numbers of open and of failed operations in the lane

	drawn []*node // children as they are drawn; see node.settled
	flat  bool    // whether all drawn children are operations
	stale bool    // whether children were added since drawn was set

	fold  *node // the node that combined this operation with others of the same name in the last drawing; nil if the operation was drawn by itself
	above *node // the branch that this operation replaces in the drawing, because the operation is the only one in the branch; nil if there is none
}

// lanes is the tree of the operations of a run. The keys of operations are paths in the tree, such
// as fulfil/map#1.2/pack#1.
type lanes struct {
	root *node
	byAt map[string]*node // lanes by prefix of the key
}

func newLanes() lanes {
	return lanes{root: &node{}, byAt: map[string]*node{}}
}

// graphLane is the label of the lane of a graph. The children of the lane are the nodes of the
// graph.
const graphLane = "graph"

// top returns the first lane to draw. This is the lane of the workflow function or, if the run has
// begun operations outside of the function, the lane of the run.
func (l *lanes) top() *node {
	if kids := l.root.kids; len(kids) == 1 && kids[0].op == nil {
		return kids[0]
	}
	return l.root
}

// plant adds an operation to the lane that its key determines.
func (l *lanes) plant(o *operation) {
	lane, last := l.root, o.key
	if i := strings.LastIndexByte(o.key, '/'); i >= 0 {
		lane, last = l.lane(o.key[:i]), o.key[i+1:]
	}
	leaf := &node{label: o.name, sub: ordinal(last), path: last, parent: lane, op: o}
	if leaf.label == "" {
		leaf.label, _, _ = strings.Cut(last, "#")
	}
	o.lane = leaf
	lane.kids = append(lane.kids, leaf)
	for n := leaf; n != nil; n = n.parent {
		n.take(o)
		n.stale = n.op == nil
	}
}

// ordinal returns the number that distinguishes operations of the same name in a part of a key. It
// returns the empty string for the first operation.
func ordinal(part string) string {
	_, n, ok := strings.Cut(part, "#")
	if !ok || n == "1" {
		return ""
	}
	return "#" + n
}

// lane returns the lane for a prefix of keys.
func (l *lanes) lane(at string) *node {
	if n := l.byAt[at]; n != nil {
		return n
	}
	above, part := l.root, at
	i := strings.LastIndexByte(at, '/')
	if i >= 0 {
		above, part = l.lane(at[:i]), at[i+1:]
	}
	n := &node{path: "/" + at}
	if fan, branch, ok := strings.Cut(part, "."); ok && strings.Contains(fan, "#") { // map#1.2 is the second branch of map#1
		above = l.lane(at[:i+1] + fan)
		above.fan = true
		n.label, n.sub = fan, "."+branch
		if above.label == graphLane { // the children of a graph are nodes with names
			n.label, n.sub = branch, ""
		}
	} else if label, sub, ok := strings.Cut(part, "#"); ok {
		n.label, n.sub = label, "#"+sub
	} else {
		n.label = part
	}
	n.parent = above
	above.kids = append(above.kids, n)
	l.byAt[at] = n
	return n
}

// take adds an operation to the counts of the lane.
func (n *node) take(o *operation) {
	if n.size == 0 {
		n.first, n.begin = o.seq, o.begin
	}
	n.size++
	n.end = max(n.end, o.end, o.begin)
	n.count(o.state, 1)
}

// count changes the number of operations in a state by the given amount.
func (n *node) count(state string, by int) {
	switch state {
	case stateOpen, stateRetrying:
		n.open += by
	case stateFailed:
		n.bad += by
	}
}

// changed updates the counts of the lanes of an operation after its state has changed.
func (l *lanes) changed(o *operation, before string) {
	if o.state == before && o.end == 0 {
		return
	}
	change := func(n *node) {
		n.count(before, -1)
		n.count(o.state, 1)
		n.end = max(n.end, o.end)
	}
	for n := o.lane; n != nil; n = n.parent {
		change(n)
	}
	if o.lane.fold != nil {
		change(o.lane.fold)
	}
}

// repeated is the maximum number of consecutive operations with the same name that are drawn one by
// one.
const repeated = 12

// settled returns the children as they are drawn. A branch with a single operation is drawn as the
// operation, and many operations with the same name are drawn as one node.
func (n *node) settled() []*node {
	if !n.stale {
		return n.drawn
	}
	n.stale = false
	n.drawn = make([]*node, 0, len(n.kids))
	for _, kid := range n.kids {
		if only := kid.only(); only != nil {
			only.above, kid = kid, only
		}
		n.drawn = append(n.drawn, kid)
	}
	if !n.fan && len(n.drawn) > repeated {
		n.drawn = folded(n.drawn)
	}
	n.flat = !slices.ContainsFunc(n.drawn, func(kid *node) bool { return kid.op == nil })
	return n.drawn
}

// only returns the single operation in a lane. It returns nil if there are several operations, or
// if the node is an operation itself.
func (n *node) only() *node {
	if n.op != nil {
		n.above = nil
		return nil
	}
	if kids := n.settled(); !n.fan && len(kids) == 1 && kids[0].op != nil {
		return kids[0]
	}
	return nil
}

// folded combines many consecutive operations with the same name into one node.
func folded(all []*node) []*node {
	var kept []*node
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].op != nil && all[j].op.name == all[i].label && all[j].op.kind == all[i].kind() {
			j++
		}
		if j-i <= repeated {
			kept = append(kept, all[i])
			i++
			continue
		}
		many := &node{label: all[i].label, path: all[i].at() + "*", parent: all[i].parent, fan: true, flat: true, kids: all[i:j:j], drawn: all[i:j:j]}
		for _, kid := range many.kids {
			many.take(kid.op)
			kid.fold = many
		}
		kept = append(kept, many)
		i = j
	}
	return kept
}

// at returns the path of a node in the tree.
func (n *node) at() string {
	if n.op == nil {
		return n.path
	}
	return n.parent.path + "/" + n.path
}

// which returns the text that distinguishes the node from other nodes with the same name.
func (n *node) which() string {
	s := n.sub
	for lane := n.parent; n.above != nil; lane = lane.parent {
		s = strings.TrimSpace(lane.label + lane.sub + " " + s)
		if lane == n.above {
			break
		}
	}
	return s
}

func (n *node) kind() string {
	if n.op == nil {
		return "branch"
	}
	return n.op.kind
}

// each calls f for each operation in a node.
func (n *node) each(f func(o *operation)) {
	if n.op != nil {
		f(n.op)
	}
	for _, kid := range n.kids {
		kid.each(f)
	}
}

// state returns the state of a branch, derived from the states of its operations.
func (n *node) state() string {
	switch {
	case n.open > 0:
		return stateOpen
	case n.bad > 0 && n.bad == n.size:
		return stateFailed
	}
	return stateDone
}
