package memstore

// list is runs or records in order. What is in a list has its place in itself, so it is in
// one at a time: a run is in exactly one queue state, a record open or settled.
type list[T linked[T]] struct {
	first, last T
	n           int
}

// linked is a T that embeds a node, so that a list can hold it.
type linked[T any] interface {
	comparable
	self() *node[T]
}

// node is the place of a T in its list.
type node[T any] struct {
	before, after T
	order         uint64 // see insert
}

func (n *node[T]) self() *node[T] { return n }

func (l *list[T]) push(x T) { l.put(x, l.last) }

// insert puts x before all that have a later order. Most come last; one that comes back
// comes before those that have come since.
func (l *list[T]) insert(x T) {
	var none T
	at := l.last
	for at != none && at.self().order > x.self().order {
		at = at.self().before
	}
	l.put(x, at)
}

// put puts x after another one, or first.
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
