package outbox

import "github.com/flowgen/flowgen/runtime/store"

// recordOf names a record in refused.
func recordOf(o *store.Outgoing) string { return string(o.From) + " " + string(o.ID) }

// toTheEnd returns marks that move a record on, and remove it, after the one that has its refusal. A record is sent once more after a
// Horizon because a failover may have lost what the receiver accepted. Of a start that was refused there is nothing to lose, and if
// it was sent once more, and its workflow id was free by then, there would be a run of which the sender knows that there is none.
func toTheEnd(o *store.Outgoing) (marks []store.Mark) {
	for phase := o.Phase + 1; phase <= store.PhaseSettled; phase++ {
		marks = append(marks, store.Mark{From: o.From, ID: o.ID, Phase: phase})
	}
	return marks
}
