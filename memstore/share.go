package memstore

import (
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// flow contains the ready runs of a route and a priority that have fairness keys.
type flow struct {
	protocol.Flow
	passes map[string]int64 // by key
	sweep  int              // at so many passes those that are over are forgotten
}

// Share returns the fairness key of a run.
func (t limitTx) Share(r *run) (protocol.Share, error) {
	return protocol.Share{FlowID: store.FlowID{Route: r.route.Route, Priority: r.priority}, Key: r.fair, Weight: r.share}, nil
}

// Flow returns the state of a flow.
func (t limitTx) Flow(id store.FlowID) (protocol.Flow, error) {
	if f := t.p.flows[id]; f != nil {
		return f.Flow, nil
	}
	return protocol.Flow{}, nil
}

// SaveFlow stores a flow.
func (t limitTx) SaveFlow(id store.FlowID, saved protocol.Flow) error {
	if saved.Waits == 0 {
		delete(t.p.flows, id)
		return nil
	}
	f := t.p.flows[id]
	if f == nil {
		f = &flow{passes: map[string]int64{}, sweep: 64}
		t.p.flows[id] = f
	}
	f.Flow = saved
	return nil
}

// Pass returns the pass of a key.
func (t limitTx) Pass(s protocol.Share) (int64, error) { return t.p.flows[s.FlowID].passes[s.Key], nil }

// SavePass stores it. Now and then it forgets the passes of keys that have nothing to wait
// for, and would begin at the present pass.
func (t limitTx) SavePass(s protocol.Share, pass int64) error {
	f := t.p.flows[s.FlowID]
	f.passes[s.Key] = pass
	if len(f.passes) < f.sweep {
		return nil
	}
	for key, pass := range f.passes {
		if pass <= f.Pass {
			delete(f.passes, key)
		}
	}
	f.sweep = 2*len(f.passes) + 64
	return nil
}

// Come returns the next number of the order in which runs come.
func (t limitTx) Come() (int64, error) {
	t.p.order++
	return int64(t.p.order), nil
}

// Came lets that go on after a place.
func (t limitTx) Came(place int64) error {
	t.p.order = max(t.p.order, uint64(place))
	return nil
}
