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

// A run takes its permits in the action that gives it to a worker. So it is in the partition
// of its limits, unless a workflow id puts it into another one: then a run of workflow
// event.PermitRun, its child in the partition of the limits, takes them for it, to its end.
//
// The code does not begin before the message of that run is in the log of this one, and no
// such message is sent before that run has its permits: it is sent by a commit of its first
// owner. Both go through outboxes, so that whatever crashes the run is created once, and tells
// once. It is told to end by the end of the run that it belongs to, as any child is; if that
// has ended before, it is told so by the refusal of its message, and ends. [L10, L11]

// grant is the id of the message that permits are there.
func grant(permits RunID) event.ItemID { return event.DerivedItemID(permits, event.PermitRun) }

// awaitPermits waits until the permits are there that another run takes for this one, and
// returns how this one ends if they will not be. One that is asked to end meanwhile does so
// without its code, as one that is in line itself.
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
		case message.Item == grant(op.Next): // and not what somebody else has sent
			return nil
		}
	}
}

// holdPermits is the code of a run that has permits for another one: it says that it has them,
// and waits until it is told to end.
func holdPermits(b *replay.Branch, s *replay.Scope, _ []byte) replay.Ending {
	self := b.Run().ID()
	refused := b.Send(s, event.PermitRun, event.PermitRun, b.Spec().Parent, grant(self), nil, func([]byte) string { return "" })
	if refused != nil {
		return replay.Ending{Type: event.RunFailed, Failure: refused}
	}
	return holdToken(b, s, nil)
}

// waits returns the run that takes the permits of a run, which is mostly that run itself.
func (c *Client) waits(ctx context.Context, r *store.Record, spec *event.Spec) (*store.Record, error) {
	if spec.PermitSlot == 0 || r.QueueState == store.StateEnded {
		return r, nil
	}
	l, err := c.load(ctx, store.Load{Run: event.DerivedRunID(r.Run, event.PermitRun, uint16(spec.PermitSlot-1)), Limit: -1})
	if errors.Is(err, ErrRunNotFound) { // it is not asked for yet
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
