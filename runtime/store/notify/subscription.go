package notify

import (
	"context"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// Subscription receives the messages of some topics. Only one goroutine may use it at a time.
type Subscription[K, M comparable] struct {
	notifier *Notifier[K, M]
	ready    chan struct{} // has a value if there are messages

	// Guarded by the mutex of the notifier:
	places   []place[K, M]
	messages []Message[K, M]
	seen     M    // state that the subscription has seen last
	rests    bool // the subscription has queried the state and has taken no message since then
}

// place is the entry of a topic in a subscription. index is the index of the subscription in the
// seats of the topic.
type place[K, M comparable] struct {
	topic *topic[K, M]
	index int
}

// Message is a published message.
type Message[K, M comparable] struct {
	Topic K
	Body  M
	// Look reports that the receiver must query the state, because the message does not describe
	// the change.
	Look  bool
	found bool // Body is an observed state
}

// maxMessages is the maximum number of kept messages of a subscription. A query is cheaper than
// more messages.
const maxMessages = 1000

func (s *Subscription[K, M]) has(t *topic[K, M]) bool {
	return slices.ContainsFunc(s.places, func(p place[K, M]) bool { return p.topic == t })
}

// add keeps a message. Consecutive equal messages count as one. If there are too many messages, add
// replaces them by one message per topic that requires a query. The caller must hold the lock.
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

// signal sends a value to c unless c already contains a value.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Ready returns a channel that has a value if there may be messages to take.
func (s *Subscription[K, M]) Ready() <-chan struct{} { return s.ready }

// Take returns the messages since the last call of Take.
func (s *Subscription[K, M]) Take() []Message[K, M] {
	s.notifier.mu.Lock()
	defer s.notifier.mu.Unlock()
	taken := s.messages
	if len(taken) > 0 { // if empty, saw has removed the messages, and the state that it has recorded is current
		s.messages, s.rests = nil, false
	}
	return taken
}

// saw records the state that a query has returned. It removes the messages that report the same
// state.
func (s *Subscription[K, M]) saw(seen M) {
	s.notifier.mu.Lock()
	defer s.notifier.mu.Unlock()
	s.seen, s.rests = seen, true
	s.messages = slices.DeleteFunc(s.messages, func(m Message[K, M]) bool { return m.found && m.Body == seen })
}

// Confirmed blocks until the source has confirmed all topics, or until patience has expired. If the
// source is unavailable, there are no notifications, and the query that follows returns the reason.
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

// Verdict is the reaction to a message.
type Verdict uint8

// Verdicts of a message.
const (
	Ignore Verdict = iota // the message is irrelevant for the call
	Look                  // query the state
	Done                  // the wait is over
)

// Awaiting contains the parameters of Await.
type Awaiting[K, M comparable] struct {
	// Look queries the state. done reports whether the state ends the wait.
	Look func() (seen M, done bool, err error)
	// Judge returns the verdict for a message that describes a change. If Judge is nil, the verdict
	// is always Look.
	Judge func(Message[K, M]) Verdict
	// Patience is the time without a notification after which Await queries the state. 0 means that
	// Await does not query without a notification.
	Patience time.Duration
}

// Await queries the state, and then queries it after each message, until the wait is over. It
// returns the error of Look, store.ErrClosed, or the error of the context.
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

// next blocks until there are messages and returns them. It returns nil if patience has expired.
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

// judge returns the verdict of the first message that is not ignored. The verdict is Look if there
// are no messages.
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
