package store

import (
	"context"

	"github.com/flowgen/flowgen/runtime/event"
)

// TurnReader is a store with limits that reports how single parts of them stand, for people who ask what a run waits for.
type TurnReader interface {
	// Turns returns how parts of limits of a partition stand, in the order of ids. A part of which nothing is known bounds nothing.
	// They need not be of one moment.
	Turns(ctx context.Context, partition int, ids []LimitID) ([]Turn, error)
}

// Turn is a part of a limit and the run whose turn is next there.
type Turn struct {
	LimitState
	// First is the first of the runs that wait for the part and that no later one passes; empty: there is none, or no claim
	// has looked at it yet.
	First event.RunID
}

// WaitsAt returns at which of its uses a run waits that is in line since a time that is not zero; turns has how the parts of its
// uses stand, in the order of uses. False: at none of them, for example because it waits for a worker.
//
// Its line waits at the first paused limit, else at the first one in the standing order that lacks room or where an earlier run
// keeps its turn: at the last limit at which the line counts. This is the only place that decides what is shown.
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
