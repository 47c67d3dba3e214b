package memstore

// list is a sorted list of runs or records. An element contains its links, so it can be in only one
// list at a time. A run has exactly one queue state, and a record is open or settled.
type list[T linked[T]] struct {
	first, last T
	n           int
}

// linked is satisfied by a T that embeds a node, and so can be an element of a list.
type linked[T any] interface {
	comparable
	self() *node[T]
}

// node contains the links of an element.
type node[T any] struct {
	before, after T
	order         uint64 // determines the position in the list; see insert
}

func (n *node[T]) self() *node[T] { return n }

func (l *list[T]) push(x T) { l.put(x, l.last) }

// insert inserts x before all elements with a larger order. Most elements are added at the end. An
// element that returns to the list is inserted before the elements that were added later.
func (l *list[T]) insert(x T) {
	var none T
	at := l.last
	for at != none && at.self().order > x.self().order {
		at = at.self().before
	}
	l.put(x, at)
}

// put inserts x after before, or at the front if before is nil.
func (l *list[T]) put(x, before T) {
	var none T
	n := x.self()
	n.before = before
	if before == none {
		n.after, l.first = l.first, x
	} else {
		n.after, before.self().after = before.self().after, x
	}
	if n.after == none {
		l.last = x
	} else {
		n.after.self().before = x
	}
	l.n++
}

func (l *list[T]) remove(x T) {
	var none T
	n := x.self()
	if n.before == none {
		l.first = n.after
	} else {
		n.before.self().after = n.after
	}
	if n.after == none {
		l.last = n.before
	} else {
		n.after.self().before = n.before
	}
	n.before, n.after = none, none
	l.n--
}
