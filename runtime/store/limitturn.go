package store

import (
	"context"

	"github.com/flowgen/flowgen/runtime/event"
)

// TurnReader is a store with limits that reports the state of single parts of limits. It serves
// people who look up what a run waits for.
type TurnReader interface {
	// Turns returns the state of parts of limits of a partition, in the order of ids. A part that
	// the store does not know bounds nothing. The states need not be of one moment.
	Turns(ctx context.Context, partition int, ids []LimitID) ([]Turn, error)
}

// Turn is the state of a part of a limit, with the run that is next there.
type Turn struct {
	LimitState
	// First is the first of the runs that wait for the part and that no later run overtakes. It is
	// empty if there is none, or if no claim has examined the run yet.
	First event.RunID
}

// WaitsAt returns the index of the use at which a run waits for permits. The run must have been
// waiting since a nonzero time. turns contains the states of the parts of its uses, in the order of
// uses. WaitsAt returns false if the run waits at none of them, for example because it waits for a
// worker.
//
// The run's limiter queue waits at the first paused limit, else at the first limit in the standing
// order that lacks free capacity or where an earlier run is next: the last limit at which the queue
// counts. This is the only place that decides what is shown.
func WaitsAt(run event.RunID, uses []Use, turns []Turn) (at int, ok bool) {
	order := StandingOrder(uses[:min(len(uses), len(turns))])
	for _, i := range order {
		if turns[i].Config.Paused {
			return i, true
		}
	}
	for _, i := range order {
		t := &turns[i]
		full := t.Config.AtOnce > 0 && t.Held+uses[i].Weight > t.Config.AtOnce
		if full || !t.Next.IsZero() || t.First != "" && t.First != run {
			return i, true
		}
	}
	return 0, false
}
