package workflow

import (
	"context"
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/store"
)

// waits returns the record of the run that takes the permits for a run. Usually this is the record
// r of the run itself.
func (c *client) waits(ctx context.Context, r *store.Record, spec *event.Spec) (*store.Record, error) {
	if spec.PermitSlot == 0 || r.QueueState == store.StateEnded {
		return r, nil
	}
	l, err := c.load(ctx, store.Load{Run: event.DerivedRunID(r.Run, event.PermitRun, uint16(spec.PermitSlot-1)), Limit: -1})
	if errors.Is(err, ErrRunNotFound) { // the run that takes the permits does not exist yet
		return &store.Record{}, nil
	}
	return &l.Record, err
}

func waitsOf(r *store.Record) (names []string) {
	if r.Waits() {
		for _, u := range r.Uses {
			names = append(names, u.LimitID.String())
		}
	}
	return names
}

func waitsSince(r *store.Record) (since time.Time) {
	if r.Waits() {
		since = r.WaitsSince
	}
	return since
}

// overweight returns a [store.LimitError] if a start needs more permits of a limit than its AtOnce
// and the store would not refuse the start. The store does not refuse it before a worker has
// declared the limit, or if another run takes the permits because of a workflow ID. A configuration
// in the store takes precedence, but overweight reads it only if the start exceeds the declaration
// in this process.
func (c *client) overweight(ctx context.Context, uses []event.Use, slot uint16, permitSlot int) error {
	for _, u := range permits.Stored(permits.Fleet(uses)) {
		most := permits.Default(u.Name).AtOnce
		if most == 0 || u.Weight <= most {
			continue
		}
		if permitSlot != 0 {
			slot = uint16(permitSlot - 1)
		}
		limiter, ok := store.As[store.Limiter](c.store)
		if !ok {
			return store.ErrNoLimits
		}
		states, err := permits.States(ctx, limiter, []int{int(slot) % c.store.Partitions()})
		if err != nil {
			return err
		}
		whole := true // most is the maximum of the limit as a whole
		for _, s := range states {
			switch known := s.Name == u.Name && (s.Set || s.Default); {
			case known && s.Key == u.Key:
				most, whole = s.Config.AtOnce, false
			case known && s.Key == "" && whole:
				most = s.Config.AtOnce
			}
		}
		if most > 0 && u.Weight > most {
			return &store.LimitError{Limit: u.LimitID, Weight: u.Weight, AtOnce: most}
		}
	}
	return nil
}
