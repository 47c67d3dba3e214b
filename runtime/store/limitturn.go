package store

import (
	"cmp"
	"context"
	"slices"

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
// A run has one order of its limits: those with keys first, then by name and key. It waits at the first paused one, else at the
// first that lacks room, else at the first where an earlier run keeps its turn. This is the only place that decides what is shown.
func WaitsAt(run event.RunID, uses []Use, turns []Turn) (at int, ok bool) {
	order := make([]int, 0, len(uses))
	for i := range uses {
		if !uses[i].Local && i < len(turns) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(min(len(uses[b].Key), 1), min(len(uses[a].Key), 1)), cmp.Compare(uses[a].Name, uses[b].Name), cmp.Compare(uses[a].Key, uses[b].Key))
	})
	for _, waits := range []func(u *Use, t *Turn) bool{
		func(_ *Use, t *Turn) bool { return t.Config.Paused },
		func(u *Use, t *Turn) bool {
			return !t.Next.IsZero() || t.Config.AtOnce > 0 && t.Held+u.Weight > t.Config.AtOnce
		},
		func(_ *Use, t *Turn) bool { return t.First != "" && t.First != run },
	} {
		for _, i := range order {
			if waits(&uses[i], &turns[i]) {
				return i, true
			}
		}
	}
	return 0, false
}
