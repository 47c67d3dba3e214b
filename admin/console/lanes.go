package console

import (
	"slices"
	"strings"
)

// node is a lane of the timeline: the run itself, a branch of it, or one operation.
type node struct {
	label, sub string
	path       string // of operations: the end of it, see node.at
	parent     *node
	kids       []*node
	op         *operation
	fan        bool   // its kids are many of one kind
	first      uint64 // number of its first event
	begin, end int64
	size       int // how many operations are in it
	open, bad  int // of them go on, and have failed

	drawn []*node // kids as they are drawn, see node.settled
	flat  bool    // these are operations, all of them
	stale bool    // kids have come since

	fold  *node // of operations: the many of one name with which it was drawn as one last; nil: none
	above *node // of operations: the lane that it is drawn for, since nothing else is in it; nil: it is drawn for itself
}

// lanes are the tree of what a run has begun: keys of operations are the ways to them, such as fulfil/map#1.2/pack#1.
type lanes struct {
	root *node
	byAt map[string]*node // lanes by the beginning of keys
}

func newLanes() lanes {
	return lanes{root: &node{}, byAt: map[string]*node{}}
}

// graphLane is the label of the lane of a graph, whose kids are its nodes.
const graphLane = "graph"

// top returns the lane that is drawn first: that of the function of the workflow, or of the run if it has begun other things, too.
func (l *lanes) top() *node {
	if kids := l.root.kids; len(kids) == 1 && kids[0].op == nil {
		return kids[0]
	}
	return l.root
}

// plant puts an operation where its key says.
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

// ordinal returns which of several of a name something is; empty: the first.
func ordinal(part string) string {
	_, n, ok := strings.Cut(part, "#")
	if !ok || n == "1" {
		return ""
	}
	return "#" + n
}

// lane returns the lane at the beginning of a key.
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
		if above.label == graphLane { // its nodes have names
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

// take counts an operation in.
func (n *node) take(o *operation) {
	if n.size == 0 {
		n.first, n.begin = o.seq, o.begin
	}
	n.size++
	n.end = max(n.end, o.end, o.begin)
	n.count(o.state, 1)
}

// count counts operations in a state in, or out.
func (n *node) count(state string, by int) {
	switch state {
	case stateOpen, stateRetrying:
		n.open += by
	case stateFailed:
		n.bad += by
	}
}

// changed takes in that an operation is in another state than before.
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

// repeated is how many operations of one name in a row are drawn as one.
const repeated = 12

// settled returns the kids as they are drawn: branches of one operation are that operation, and many of one name are one.
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

// only returns the one operation that is in a lane; nil: there are more, or it is an operation itself.
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

// folded returns kids with those that are many of one name as one.
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

// at returns where a node is in the tree.
func (n *node) at() string {
	if n.op == nil {
		return n.path
	}
	return n.parent.path + "/" + n.path
}

// which tells a node from others of the same name.
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

// each calls f with all operations of a node.
func (n *node) each(f func(o *operation)) {
	if n.op != nil {
		f(n.op)
	}
	for _, kid := range n.kids {
		kid.each(f)
	}
}

// state returns that of a branch.
func (n *node) state() string {
	switch {
	case n.open > 0:
		return stateOpen
	case n.bad > 0 && n.bad == n.size:
		return stateFailed
	}
	return stateDone
}
