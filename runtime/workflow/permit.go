package workflow

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// A run takes its permits in the action that assigns it to a worker. Therefore it is in the
// partition of its limits, unless a workflow ID places it in another one. In that case a child of
// workflow event.PermitRun in the partition of the limits takes the permits for it and holds them
// until the run ends.
//
// The code of the run does not begin before the message of that child is in the run's log, and the
// child sends the message only when it holds its permits: the message is part of a commit of its
// first owner. Both the creation of the child and the message go through outboxes, so each happens
// exactly once regardless of crashes. The end of the run ends the child, as for any child; if the
// run has ended earlier, the refusal of the child's message ends the child. [L10, L11]

// grant returns the ID of the message that reports that the permits are held.
func grant(permits RunID) event.ItemID { return event.DerivedItemID(permits, event.PermitRun) }

// awaitPermits waits until the permits are available that another run takes for this one. If they
// cannot be obtained it returns how this run ends. A run that is canceled meanwhile ends without
// executing its code, like a run that waits for permits itself.
func awaitPermits(b *replay.Branch, s *replay.Scope) *replay.Ending {
	spec := b.Spec()
	if spec.PermitSlot == 0 {
		return nil
	}
	if s.Err() != nil {
		end := ending(s, s.Err())
		return &end
	}
	op := b.Child(b.NewScope(nil), event.Event{
		Name: event.PermitRun, Key: event.PermitRun, Active: uint8(FailActive),
		Spec: &event.Spec{
			Workflow: event.PermitRun, Queue: spec.Queue, Priority: spec.Priority, Retention: spec.Retention, Uses: permits.Fleet(spec.Uses), Whole: true,
		},
	}, uint16(spec.PermitSlot-1), func([]byte) string { return "" })
	cases := []replay.Case{{Topic: event.PermitRun}, {Promise: &op.Promise}}
	if by := b.Run().State().PermitsBy(); !by.IsZero() {
		cases = append(cases, replay.Case{Due: by})
	}
	for {
		won, message, err := b.Select(s, cases)
		switch {
		case err != nil:
			end := ending(s, err)
			return &end
		case won == 1:
			return &replay.Ending{Type: event.RunFailed, Failure: op.Failure}
		case won == 2:
			return &replay.Ending{Type: event.RunFailed, Failure: &event.Failure{
				Code: event.CodeNotStarted, Message: fmt.Sprintf("it did not get its permits within %v", spec.StartWithin),
			}}
		case message.Item == grant(op.Next): // not a message from another sender
			return nil
		}
	}
}

// holdPermits is the code of a run that holds permits for another run: it reports that it has them,
// and waits until it is canceled.
func holdPermits(b *replay.Branch, s *replay.Scope, _ []byte) replay.Ending {
	self := b.Run().ID()
	refused := b.Send(s, event.PermitRun, event.PermitRun, b.Spec().Parent, grant(self), nil, func([]byte) string { return "" })
	if refused != nil {
		return replay.Ending{Type: event.RunFailed, Failure: refused}
	}
	return holdToken(b, s, nil)
}

// waits returns the record of the run that takes the permits of a run, which usually is that run
// itself.
func (c *Client) waits(ctx context.Context, r *store.Record, spec *event.Spec) (*store.Record, error) {
	if spec.PermitSlot == 0 || r.QueueState == store.StateEnded {
		return r, nil
	}
	l, err := c.load(ctx, store.Load{Run: event.DerivedRunID(r.Run, event.PermitRun, uint16(spec.PermitSlot-1)), Limit: -1})
	if errors.Is(err, ErrRunNotFound) { // not created yet
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

// overweight returns a [store.LimitError] if a run to start uses more of a limit than its AtOnce
// and the store would not refuse it: before a worker has declared the limit, and if another run
// takes the permits because the workflow ID places the run in another partition. It reads the store
// only if the declaration in this process is exceeded; a configuration in the store takes
// precedence.
func (c *Client) overweight(ctx context.Context, uses []event.Use, slot uint16, permitSlot int) error {
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
		whole := true // most is the value of the limit as a whole
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
