package storetest

import (
	"cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// The shares of the model: what a key has had of its flow, and where its next run goes. Package
// protocol knows no fair keys here. Where several runs come into a flow by one action, it is the
// store that says in which order they came: then the order of the flow is not judged until
// nobody is in it.

// modelFlow is the ready runs with fair keys of a route and a priority, from when the first came
// until nobody is left.
type modelFlow struct {
	present int            // where the last run that began was, and one more
	newest  int            // the place of the last key that had no later one
	next    map[string]int // where the next run of a key goes at the earliest
	unsure  bool
	came    *modelRun // last, and by which action
	action  int
}

func (r *modelRun) flow() store.FlowID { return store.FlowID{Route: r.Route, Priority: r.Priority} }

// inFlow returns how many runs of a flow are ready, without one.
func (m *model) inFlow(id store.FlowID, without event.RunID) (n int) {
	for _, r := range m.runs {
		if r.InFlow() && r.flow() == id && r.Run != without {
			n++
		}
	}
	return n
}

func (m *model) flowCounts() map[store.FlowID]int {
	counts := map[store.FlowID]int{}
	for _, r := range m.runs {
		if r.InFlow() {
			counts[r.flow()]++
		}
	}
	return counts
}

// enterFlow gives a run that has come to be ready its place, if it has none: not before the
// present one of its flow, and so far after the last one of its key as its share says.
func (m *model) enterFlow(r *modelRun) {
	f := m.flows[r.flow()]
	if f == nil || m.inFlow(r.flow(), r.Run) == 0 {
		f = &modelFlow{present: m.nextTurn(), next: map[string]int{}}
		m.flows[r.flow()] = f
	}
	r.fresh = true
	if r.place != 0 {
		return
	}
	first := min(f.newest+1, f.present+630) // keys that have had nothing go in the order in which they come
	if r.place = max(f.present, first, f.next[r.Fair]); f.next[r.Fair] <= max(f.present, first) {
		f.newest = r.place
	}
	f.next[r.Fair] = r.place + (5040+r.Share/2)/r.Share
	m.turn = max(m.turn, r.place)
	if f.came != nil && f.action == m.action {
		f.unsure, f.came.placed = true, false
	}
	r.placed = !f.unsure
	f.came, f.action = r, m.action
}

// leaveFlow lets those who come after a run that begins have later places.
func (m *model) leaveFlow(r *modelRun) {
	f := m.flows[r.flow()]
	f.present = max(f.present, r.place+1)
}

// guardShare refuses a run with an owner that would pass others.
func (m *model) guardShare(c *store.Create) error {
	if c.Fair != "" && c.Owner != nil && m.inFlow(store.FlowID{Route: c.Route, Priority: c.Priority}, "") > 0 {
		return protocol.Refused{Err: store.ErrNotClaimable}
	}
	return nil
}

// compareKeyed compares two runs of which one has a place by a fair key: by the places, if both
// are known, and are of one flow.
func compareKeyed(a, b *modelRun) int {
	if a.keyed && b.keyed && a.placed && b.placed && a.Route == b.Route {
		return cmp.Compare(a.place, b.place)
	}
	return 0
}
