package store

import (
	"cmp"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
)

// UnservedMost bounds how many runs a heartbeat names that nobody serves.
const UnservedMost = 100

// CompareRoutes orders routes by queue, then by workflow.
func CompareRoutes(a, b Route) int {
	return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Workflow, b.Workflow))
}

// UnservedTurn is how far a store has come in naming runs that nobody serves. It is for
// stores, and not safe for concurrent use.
type UnservedTurn struct {
	route Route
	rank  int
}

// Next returns the next runs of the routes, which are sorted. ready returns up to limit ready
// runs of a route, without the first skip of them. What becomes ready or leaves meanwhile may
// move a run over the place where the turn stands; the next turn comes to it.
func (t *UnservedTurn) Next(routes []Route, ready func(c Route, skip, limit int) ([]event.RunID, error)) ([]event.RunID, error) {
	at, same := slices.BinarySearchFunc(routes, t.route, CompareRoutes)
	if !same {
		t.rank = 0
	}
	var all []event.RunID
	for range routes {
		at %= len(routes)
		left := UnservedMost - len(all)
		found, err := ready(routes[at], t.rank, left)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
		if len(found) == left {
			t.route, t.rank = routes[at], t.rank+left
			return all, nil
		}
		at, t.rank = at+1, 0
		t.route = routes[at%len(routes)]
	}
	return all, nil
}
