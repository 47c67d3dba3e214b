package workflow

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/handover"
	"github.com/flowgen/flowgen/runtime/store"
)

// WithMessage starts the run with a message of the topic: it is there before the code
// begins, as if it had been sent before everything else, and the run and the message are
// created together, or neither is. Given several times, the messages are received in that
// order.
//
// If [WithID] finds an active run, and the policy uses it, the message is sent to that one,
// as by [Topic.Send]; should the run end before it has accepted the message, a new run is
// started with it. So when the start returns without an error, exactly one run has accepted
// the message, and it is the one returned, or its continuation. Of several
// messages each is accepted once, and those that a run did not accept before its end start
// the next. With a policy that fails there is no message either.
//
// A run that is delayed, held, or queued after another one is not woken by the message.
// With an [IdempotencyKey] the message arrives once at one run, even if Send sends it as
// well. Another start with the key, after that run has ended, starts another run unless the
// [IDPolicy] forbids it.
//
// A value that is too large, or has no stored form, is a *PayloadError of the start.
func WithMessage[T any](t Topic[T], v T, opts ...SendOption) StartOption {
	t.declared()
	return startOption(func(r *runOptions) {
		r.messages = append(r.messages, func(l *limits, by string, inside bool) (store.Item, error) {
			if event.Reserved(t.name) && !inside {
				return store.Item{}, reservedTopic(t.name)
			}
			return t.item(l, v, by, opts)
		})
	})
}

// items returns what the run is created with, on behalf of whom. Two messages of one key are one message.
// inside: it is one of the runtime's own, and takes messages of the topics of the runtime.
func (o *runOptions) items(l *limits, by string, inside bool) ([]store.Item, error) {
	var items []store.Item
	for _, message := range o.messages {
		item, err := message(l, by, inside)
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(items, func(i store.Item) bool { return i.ID == item.ID }) {
			items = append(items, item)
		}
	}
	return items, nil
}

// sendAlong sends the messages of a start to the active run that was there instead of a
// new one, and returns which run has them, and whether that has the input of the start; same reports that of the run there.
//
// A message goes to one run after the other, and to the next only after the one before has
// refused it for good: a run that has ended accepts nothing that it did not accept
// before, and confirms what it did. So no message is accepted twice, whichever answer
// came late; and none is accepted by nobody, for the last run is asked until it accepts, or
// is created with what is left. Each new run has an id of its own: under that of an earlier
// request the store would answer for ever what it did then.
func (d *definition) sendAlong(ctx context.Context, c *Client, s *handover.Start, there store.Created, same bool) (store.Created, bool) {
	left := s.Create.Items
	for delay := time.Millisecond; ; delay = min(2*delay, 100*time.Millisecond) {
		err := there.Err // that of a look at the run, if any
		for err == nil && len(left) > 0 {
			if err = c.put(ctx, there.Run, left[0], false, time.Time{}); err == nil {
				left = left[1:]
			}
		}
		if !errors.Is(err, ErrRunTerminal) && !errors.Is(err, ErrRunNotFound) {
			there.Err = err
			return there, same
		}
		if err := c.pause(ctx, delay); err != nil {
			return store.Created{Err: err}, false
		}
		s = s.Again(event.NewRunID(c.store.Clock().Now(), s.Create.Run.Slot()), left)
		starts := []*handover.Start{s}
		created, err := c.create(ctx, starts)
		if err != nil {
			return store.Created{Err: err}, false
		}
		if there = created[0]; there.Err != nil || there.New {
			return there, there.New
		}
		same = d.own(ctx, c, starts, created)[0]
		there = created[0]
	}
}
