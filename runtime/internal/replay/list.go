package replay

// list is a doubly linked list whose nodes are fields of its items. So adding and removing an item
// take constant time and do not allocate. The zero list is empty.
type list[T any] struct {
	first, last *node[T]
	n           int
}

// node is the node of an item in a list. The zero node is in no list.
type node[T any] struct {
	item       *T
	in         *list[T]
	prev, next *node[T]
}

// push appends item. Its node n must not be in a list.
func (l *list[T]) push(n *node[T], item *T) {
	*n = node[T]{item: item, in: l, prev: l.last}
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
	l.n++
}

// pop removes and returns the first item. It returns nil if the list is empty.
func (l *list[T]) pop() *T {
	if l.first == nil {
		return nil
	}
	item := l.first.item
	l.first.remove()
	return item
}

// remove removes the item from its list. It does nothing if the item is in no list.
func (n *node[T]) remove() {
	if n.in == nil {
		return
	}
	if n.prev == nil {
		n.in.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		n.in.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.in.n--
	*n = node[T]{}
}
