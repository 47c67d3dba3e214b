package console

import (
	"strings"
)

// node is a lane of the timeline: the run itself, a branch of it, or one operation.
type node struct {
	label, sub string
	path       string
	parent     *node
	kids       []*node
	byName     map[string]*node
	op         *operation
	fan        bool   // its kids are many of one kind
	first      uint64 // number of its first event
	begin, end int64
	size       int // how many operations are in it
	open, bad  int // of them go on, and have failed
}

// grow returns the tree of the lanes: keys of operations are the ways to them, such as fulfil/map#1.2/pack#1.
func grow(ops []operation) *node {
	root := &node{byName: map[string]*node{}}
	for i := range ops {
		root.plant(&ops[i])
	}
	for _, kid := range root.kids {
		kid.parent = root
	}
	if len(root.kids) == 1 && root.kids[0].op == nil { // the function of the workflow
		only := root.kids[0]
		only.parent = nil
		root = only
	}
	root.settle()
	return root
}

// plant puts an operation where its key says.
func (n *node) plant(o *operation) {
	parts := strings.Split(o.key, "/")
	at := n
	at.take(o)
	for _, part := range parts[:len(parts)-1] {
		fan, branch, isFan := strings.Cut(part, ".") // map#1.2 is the second branch of map#1
		if isFan && strings.Contains(fan, "#") {
			at = at.lane(fan)
			at.fan = true
			at.take(o)
			part = branch
			at = at.lane(part)
			at.sub, at.label = "."+branch, fan
		} else {
			at = at.lane(part)
		}
		at.take(o)
	}
	leaf := &node{label: o.name, sub: ordinal(parts[len(parts)-1]), path: at.path + "/" + parts[len(parts)-1], parent: at, op: o}
	if leaf.label == "" {
		leaf.label, _, _ = strings.Cut(parts[len(parts)-1], "#")
	}
	leaf.take(o)
	at.kids = append(at.kids, leaf)
}

// ordinal returns which of several of a name something is; empty: the first.
func ordinal(part string) string {
	_, n, ok := strings.Cut(part, "#")
	if !ok || n == "1" {
		return ""
	}
	return "#" + n
}

func (n *node) lane(name string) *node {
	if kid := n.byName[name]; kid != nil {
		return kid
	}
	label, sub, ok := strings.Cut(name, "#")
	if ok {
		sub = "#" + sub
	}
	kid := &node{label: label, sub: sub, path: n.path + "/" + name, parent: n, byName: map[string]*node{}}
	n.byName[name] = kid
	n.kids = append(n.kids, kid)
	return kid
}

// take counts an operation in.
func (n *node) take(o *operation) {
	if n.size == 0 {
		n.first, n.begin = o.seq, o.begin
	}
	n.size++
	n.end = max(n.end, o.end, o.begin)
	switch o.state {
	case stateOpen, stateRetrying:
		n.open++
	case stateFailed:
		n.bad++
	}
}

// repeated is how many operations of one name in a row are drawn as one.
const repeated = 12

// settle lets branches of one operation be that operation, and many of one name be one.
func (n *node) settle() {
	for i, kid := range n.kids {
		kid.settle()
		if kid.op == nil && !kid.fan && len(kid.kids) == 1 && kid.kids[0].op != nil {
			only := kid.kids[0]
			only.sub = strings.TrimSpace(kid.label + kid.sub + " " + only.sub)
			only.parent = n
			n.kids[i] = only
		}
	}
	if n.fan || len(n.kids) <= repeated {
		return
	}
	var kept []*node
	for i := 0; i < len(n.kids); {
		j := i
		for j < len(n.kids) && n.kids[j].op != nil && n.kids[j].op.name == n.kids[i].label && n.kids[j].op.kind == n.kids[i].kind() {
			j++
		}
		if j-i <= repeated {
			kept = append(kept, n.kids[i])
			i++
			continue
		}
		many := &node{label: n.kids[i].label, path: n.kids[i].path + "*", parent: n, fan: true, kids: n.kids[i:j:j]}
		for _, kid := range many.kids {
			many.take(kid.op)
			kid.parent = many
		}
		kept = append(kept, many)
		i = j
	}
	n.kids = kept
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
