package history

import (
	"cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// The fair shares of the model: how much of a flow each fairness key has had, and the position of
// its next run. The model does not use the fairness keys of package protocol. If several runs enter
// a flow in one action, the store chooses their order. In this case the model does not check the
// order of the flow until the flow is empty.

// modelFairKey is the state of a flow, which consists of the ready runs with fairness keys of one
// route and priority. It exists while the flow has a run.
type modelFairKey struct {
	present int            // one more than the place of the last run that began
	newest  int            // place of the last key that entered without a later place of its own
	next    map[string]int // by key, the earliest place of its next run
	unsure  bool
	came    *modelRun // the last run that entered the flow, in operation action
	action  int
}

func (r *modelRun) fairKey() store.FairID { return store.FairID{Route: r.Route, Priority: r.Priority} }

// inFairKey returns the number of runs in a flow, without the given run.
func (m *model) inFairKey(id store.FairID, without event.RunID) (n int) {
	for _, r := range m.runs {
		if r.InFairKey() && r.fairKey() == id && r.Run != without {
			n++
		}
	}
	return n
}

func (m *model) flowCounts() map[store.FairID]int {
	counts := map[store.FairID]int{}
	for _, r := range m.runs {
		if r.InFairKey() {
			counts[r.fairKey()]++
		}
	}
	return counts
}

// enterFairKey gives a place to a run that becomes ready, unless the run has a place. The place is
// at or after the present place of the flow. Its distance from the last run of the same key depends
// on the share of the run.
func (m *model) enterFairKey(r *modelRun) {
	f := m.fairKeys[r.fairKey()]
	if f == nil || m.inFairKey(r.fairKey(), r.Run) == 0 {
		f = &modelFairKey{present: m.nextTurn(), next: map[string]int{}}
		m.fairKeys[r.fairKey()] = f
	}
	r.fresh = true
	if r.place != 0 {
		return
	}
	first := min(f.newest+1, f.present+630) // keys that enter the flow take places in the order of arrival
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

// leaveFairKey moves the present place of a flow behind the place of a run that begins.
func (m *model) leaveFairKey(r *modelRun) {
	f := m.fairKeys[r.fairKey()]
	f.present = max(f.present, r.place+1)
}

// guardShare refuses a create with an owner if its flow has ready runs, because these must be
// claimed first.
func (m *model) guardShare(c *store.Create) error {
	if c.Fair != "" && c.Owner != nil && m.inFairKey(store.FairID{Route: c.Route, Priority: c.Priority}, "") > 0 {
		return protocol.Refused{Err: store.ErrNotClaimable}
	}
	return nil
}

// compareKeyed compares two runs, at least one of which has a place in a flow. It returns 0 unless
// both have known places in the same route.
func compareKeyed(a, b *modelRun) int {
	if a.keyed && b.keyed && a.placed && b.placed && a.Route == b.Route {
		return cmp.Compare(a.place, b.place)
	}
	return 0
}
