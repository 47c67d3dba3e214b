package outbox

import "github.com/flowgen/flowgen/runtime/store"

// recordOf returns the key of a record in refused.
func recordOf(o *store.Outgoing) string { return string(o.From) + " " + string(o.ID) }

// toTheEnd returns marks that move a record past the phase that recorded its refusal, and remove
// it. A record is normally sent again after a Horizon, because a failover may have lost what the
// receiver accepted. A refused start has nothing to lose. If it were sent again when its workflow
// id is free, a run would exist that the sender believes not to exist.
func toTheEnd(o *store.Outgoing) (marks []store.Mark) {
	for phase := o.Phase + 1; phase <= store.PhaseSettled; phase++ {
		marks = append(marks, store.Mark{From: o.From, ID: o.ID, Phase: phase})
	}
	return marks
}
