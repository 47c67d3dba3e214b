package notify

import (
	"context"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// Subscription receives what is published under some topics. It is used by one goroutine at a time.
type Subscription[K, M comparable] struct {
	notifier *Notifier[K, M]
	ready    chan struct{} // has a value when there are messages

	// Guarded by the mutex of the notifier:
	places   []place[K, M]
	messages []Message[K, M]
	seen     M    // the state that it has seen last
	rests    bool // it has queried the state, and taken nothing since
}

// place is the position of a subscription in a topic.
type place[K, M comparable] struct {
	topic *topic[K, M]
	index int
}

// Message is a published message.
type Message[K, M comparable] struct {
	Topic K
	Body  M
	// Look reports that only a query shows what has happened.
	Look  bool
	found bool // Body is an observed state
}

// maxMessages bounds the messages of a subscription; beyond it a query is cheaper.
const maxMessages = 1000

func (s *Subscription[K, M]) has(t *topic[K, M]) bool {
	return slices.ContainsFunc(s.places, func(p place[K, M]) bool { return p.topic == t })
}

// add keeps a message. Equal messages in a row count as one. A subscription with too many messages
// must query all its topics. It must be called with the lock held.
func (s *Subscription[K, M]) add(m Message[K, M]) {
	switch last := len(s.messages) - 1; {
	case last >= 0 && s.messages[last] == m:
	case last+1 < maxMessages+len(s.places):
		s.messages = append(s.messages, m)
	default:
		s.messages = nil
		for _, p := range s.places {
			s.messages = append(s.messages, Message[K, M]{Topic: p.topic.name, Look: true})
		}
	}
	signal(s.ready)
}

// signal makes a receiver of c continue, unless c has a value already.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Ready returns a channel that has a value when there may be messages to take.
func (s *Subscription[K, M]) Ready() <-chan struct{} { return s.ready }

// Take returns the messages since the last call.
func (s *Subscription[K, M]) Take() []Message[K, M] {
	s.notifier.mu.Lock()
	defer s.notifier.mu.Unlock()
	taken := s.messages
	if len(taken) > 0 { // otherwise saw has removed them, and what it saw still holds
		s.messages, s.rests = nil, false
	}
	return taken
}

// saw records the state that a query has returned, and drops observations of the same state.
func (s *Subscription[K, M]) saw(seen M) {
	s.notifier.mu.Lock()
	defer s.notifier.mu.Unlock()
	s.seen, s.rests = seen, true
	s.messages = slices.DeleteFunc(s.messages, func(m Message[K, M]) bool { return m.found && m.Body == seen })
}

// Confirmed blocks until the source has confirmed all topics, but no longer than patience: without
// the source there are no notifications, and a query returns the reason.
func (s *Subscription[K, M]) Confirmed(ctx context.Context, patience time.Duration) error {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for i := range s.places {
		topic := s.places[i].topic
		if topic.confirmed == nil {
			continue
		}
		select {
		case <-topic.confirmed:
		case <-timer.C:
			return nil
		case <-s.notifier.done:
			return store.ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Verdict is the reaction of a waiting call to a message.
type Verdict uint8

// The verdicts.
const (
	Ignore Verdict = iota // the message does not concern the call
	Look                  // query again
	Done                  // the wait is over
)

// Awaiting configures a wait.
type Awaiting[K, M comparable] struct {
	// Look queries the state, and reports whether it ends the wait.
	Look func() (seen M, done bool, err error)
	// Judge returns the verdict for a message that is more than a hint to query; a nil Judge always
	// returns Look.
	Judge func(Message[K, M]) Verdict
	// Patience is the time after which to query without a notification; 0: never.
	Patience time.Duration
}

// Await queries, and then waits for messages and queries again, until the wait is over. The error
// is from Look, store.ErrClosed, or from the context.
func (s *Subscription[K, M]) Await(ctx context.Context, a Awaiting[K, M]) error {
	for {
		seen, done, err := a.Look()
		if done || err != nil {
			return err
		}
		verdict := Ignore
		for verdict == Ignore {
			s.saw(seen)
			told, err := s.next(ctx, a.Patience)
			if err != nil {
				return err
			}
			verdict = a.judge(told)
		}
		if verdict == Done {
			return nil
		}
	}
}

// next blocks until there are messages. It returns none if patience has expired.
func (s *Subscription[K, M]) next(ctx context.Context, patience time.Duration) ([]Message[K, M], error) {
	var end <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		end = timer.C
	}
	for {
		select {
		case <-s.ready:
		case <-end:
			return nil, nil
		case <-s.notifier.done:
			return nil, store.ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if told := s.Take(); len(told) > 0 {
			return told, nil
		}
	}
}

// judge returns the verdict of the first message that is not ignored.
func (a *Awaiting[K, M]) judge(told []Message[K, M]) Verdict {
	if told == nil || a.Judge == nil {
		return Look
	}
	for _, m := range told {
		if m.Look {
			return Look
		}
		if v := a.Judge(m); v != Ignore {
			return v
		}
	}
	return Ignore
}

// Close ends the subscription.
func (s *Subscription[K, M]) Close() {
	s.notifier.mu.Lock()
	defer s.notifier.mu.Unlock()
	for i := range s.places {
		s.notifier.leave(s.places[i])
	}
	s.places = nil
}
