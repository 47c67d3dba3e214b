package notify

import (
	"sync"
	"time"
)

// Notifier passes what is published under a topic to the topic's subscriptions. M describes what
// has happened, or a state. All methods are safe for concurrent use; none blocks.
type Notifier[K, M comparable] struct {
	done    <-chan struct{}
	source  Source[K] // nil: only this process publishes
	keepFor time.Duration

	mu     sync.Mutex
	topics map[K]*topic[K, M]
	idle   int // number of topics without a subscription
}

// Source delivers what other processes publish under topics. It calls Publish for each message,
// Confirm once it will miss nothing of a topic, and Notify for a topic of which it may have missed
// something. Its methods are called under the lock of the notifier: they must not block, nor call
// the notifier.
type Source[K comparable] interface {
	Subscribe(topic K)
	Unsubscribe(topic K)
}

// topic has the subscriptions to one name.
type topic[K, M comparable] struct {
	name      K
	seats     []seat[K, M]
	confirmed chan struct{} // closed by Confirm; nil: there is no source
	since     time.Time     // when the last subscription was closed
}

// seat identifies one of the topics of a subscription.
type seat[K, M comparable] struct {
	subscription *Subscription[K, M]
	nth          int
}

// New returns a notifier for what this process publishes. It ends when done is closed.
func New[K, M comparable](done <-chan struct{}) *Notifier[K, M] {
	return &Notifier[K, M]{done: done, topics: map[K]*topic[K, M]{}}
}

// NewWithSource returns a notifier for what a source delivers. A topic stays subscribed for keepFor
// after its last subscription was closed, because a caller that waits for one change usually waits
// for the next one soon; see Sweep.
func NewWithSource[K, M comparable](done <-chan struct{}, source Source[K], keepFor time.Duration) *Notifier[K, M] {
	n := New[K, M](done)
	n.source, n.keepFor = source, keepFor
	return n
}

// Subscribe returns a subscription to topics, which must be closed. Callers must subscribe before
// they query the state.
func (n *Notifier[K, M]) Subscribe(names ...K) *Subscription[K, M] {
	s := &Subscription[K, M]{notifier: n, ready: make(chan struct{}, 1), places: make([]place[K, M], 0, len(names))}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, name := range names {
		if t := n.topic(name); !s.has(t) {
			s.places = append(s.places, place[K, M]{t, len(t.seats)})
			t.seats = append(t.seats, seat[K, M]{s, len(s.places) - 1})
		}
	}
	return s
}

// topic returns the topic for a new subscription.
func (n *Notifier[K, M]) topic(name K) *topic[K, M] {
	t := n.topics[name]
	switch {
	case t == nil:
		t = &topic[K, M]{name: name}
		n.topics[name] = t
		if n.source != nil {
			t.confirmed = make(chan struct{})
			n.source.Subscribe(name)
		}
	case n.source != nil && len(t.seats) == 0:
		n.idle--
	}
	return t
}

// leave removes a subscription from a topic.
func (n *Notifier[K, M]) leave(p place[K, M]) {
	t, last := p.topic, len(p.topic.seats)-1
	moved := t.seats[last]
	t.seats[p.index] = moved
	moved.subscription.places[moved.nth].index = p.index
	t.seats[last] = seat[K, M]{}
	t.seats = t.seats[:last]
	switch {
	case last > 0:
	case n.source == nil:
		delete(n.topics, t.name)
	default:
		t.since = time.Now()
		n.idle++
	}
}

// Publish sends a message to a topic's subscriptions.
func (n *Notifier[K, M]) Publish(name K, body M) { n.tell(Message[K, M]{Topic: name, Body: body}) }

// Notify makes a topic's subscriptions query the state, because something has happened or may have
// been missed.
func (n *Notifier[K, M]) Notify(name K) { n.tell(Message[K, M]{Topic: name, Look: true}) }

func (n *Notifier[K, M]) tell(m Message[K, M]) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if t := n.topics[m.Topic]; t != nil {
		for _, s := range t.seats {
			s.subscription.add(m)
		}
	}
}

// Compare reports an observed state. Subscriptions that have seen this state are not notified. If
// the query of a subscription is in progress, it may have preceded the observation; the states are
// compared when the subscription reports what it has seen.
func (n *Notifier[K, M]) Compare(name K, found M) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.topics[name]
	if t == nil {
		return
	}
	for _, s := range t.seats {
		if sub := s.subscription; !sub.rests || sub.seen != found {
			sub.add(Message[K, M]{Topic: name, Body: found, Look: true, found: true})
		}
	}
}

// Confirm records that nothing published under a topic will be missed from now on. If the topic was
// confirmed before, something may have been missed since, so its subscriptions query the state.
func (n *Notifier[K, M]) Confirm(name K) {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := n.topics[name]
	if t == nil || t.confirmed == nil {
		return
	}
	select {
	case <-t.confirmed:
		for _, s := range t.seats {
			s.subscription.add(Message[K, M]{Topic: name, Look: true})
		}
	default:
		close(t.confirmed)
	}
}

// Resubscribe calls reset and then subscribes to all topics at the source again. No topic is added
// or removed in between.
func (n *Notifier[K, M]) Resubscribe(reset func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	reset()
	for name := range n.topics {
		n.source.Subscribe(name)
	}
}

// Sweep unsubscribes from topics at the source that have had no subscription for keepFor.
func (n *Notifier[K, M]) Sweep() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.idle == 0 {
		return
	}
	for name, t := range n.topics {
		if len(t.seats) == 0 && time.Since(t.since) >= n.keepFor {
			delete(n.topics, name)
			n.idle--
			n.source.Unsubscribe(name)
		}
	}
}

// Any reports whether there is a subscription.
func (n *Notifier[K, M]) Any() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.topics) > n.idle
}

// Topics returns the topics that have a subscription.
func (n *Notifier[K, M]) Topics() []K {
	n.mu.Lock()
	defer n.mu.Unlock()
	names := make([]K, 0, len(n.topics))
	for name, t := range n.topics {
		if len(t.seats) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// Resting returns how many subscriptions to a topic wait without a message to take.
func (n *Notifier[K, M]) Resting(name K) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	resting := 0
	if t := n.topics[name]; t != nil {
		for _, s := range t.seats {
			if s.subscription.rests && len(s.subscription.messages) == 0 {
				resting++
			}
		}
	}
	return resting
}
