package store

import (
	"cmp"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
)

// UnservedMost bounds how many runs a heartbeat names that nobody serves.
const UnservedMost = 100

// CompareClasses orders classes by queue, then by workflow.
func CompareClasses(a, b Class) int {
	return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Workflow, b.Workflow))
}

// UnservedTurn is how far a store has come in naming runs that nobody serves. It is for
// stores, and not safe for concurrent use.
type UnservedTurn struct {
	class Class
	rank  int
}

// Next returns the next runs of the classes, which are sorted. ready returns up to limit ready
// runs of a class, without the first skip of them. What becomes ready or leaves meanwhile may
// move a run over the place where the turn stands; the next turn comes to it.
func (t *UnservedTurn) Next(classes []Class, ready func(c Class, skip, limit int) ([]event.RunID, error)) ([]event.RunID, error) {
	at, same := slices.BinarySearchFunc(classes, t.class, CompareClasses)
	if !same {
		t.rank = 0
	}
	var all []event.RunID
	for range classes {
		at %= len(classes)
		left := UnservedMost - len(all)
		found, err := ready(classes[at], t.rank, left)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if len(found) == left {
			t.class, t.rank = classes[at], t.rank+left
			return all, nil
		}
		at, t.rank = at+1, 0
		t.class = classes[at%len(classes)]
	}
	return all, nil
}
