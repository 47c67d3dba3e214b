package store

import (
	"cmp"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
)

// UnservedMost is the maximum number of unserved runs that a heartbeat reports.
const UnservedMost = 100

// CompareRoutes orders routes by queue, then by workflow.
func CompareRoutes(a, b Route) int {
	return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Workflow, b.Workflow))
}

// UnservedTurn is the position of a store in reporting the runs of routes that no session serves.
// It is for implementations of stores and is not safe for concurrent use.
type UnservedTurn struct {
	route Route
	rank  int
}

// Next returns the next runs of the routes, which must be sorted. ready returns up to limit ready
// runs of a route after skipping the first skip. A run that becomes ready or leaves meanwhile may
// move another run past the current position; the next round reports that run.
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
