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

// WithMessage starts the run with a message of the topic. The message is available before the code
// begins, ahead of everything sent later, and the run and the message are created atomically. If
// the option is given several times, the messages are received in that order.
//
// If [WithID] finds an active run, and the policy uses it, the message is sent to that run, as by
// [Topic.Send]. If the run ends before it has accepted the message, a new run is started with it.
// So when the start returns without an error, exactly one run has accepted the message: the
// returned run or its continuation. Each of several messages is accepted once; messages that a run
// did not accept before its end start the next run. If the policy makes the start fail, no message
// is sent.
//
// The message does not wake a run that is delayed, held, or queued behind another one. With an
// [IdempotencyKey] the message arrives once at one run, even if Send sends it as well. Another
// start with the key after the end of that run starts another run, unless the [IDPolicy] forbids
// it.
//
// If the value is too large or cannot be encoded, the start fails with a *PayloadError.
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

// items returns the messages with which the run is created, on behalf of by. Messages with the same
// key are sent once. inside reports that the run is internal to the runtime, and may get messages
// of the runtime's topics.
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

// sendAlong sends the messages of a start to the active run that was found instead of creating one.
// It returns the run that has the messages, and whether that run has the input of the start; same
// reports that for the run found.
//
// It sends a message to the next run only after the previous one has refused it permanently: a run
// that has ended accepts nothing more, and confirms what it has accepted. So no message is accepted
// twice, even if a response is late; and every message is accepted, because the last run either
// accepts it or is created with the remaining ones. Each new run gets a new ID, because the store
// answers a repeated ID with the result of the earlier request.
func (d *definition) sendAlong(ctx context.Context, c *Client, s *handover.Start, there store.Created, same bool) (store.Created, bool) {
	left := s.Create.Items
	for delay := time.Millisecond; ; delay = min(2*delay, 100*time.Millisecond) {
		err := there.Err // from reading the run
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
