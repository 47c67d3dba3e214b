package notify

import (
	"sync"
	"time"
)

// Notifier distributes messages to the subscriptions of their topic. M is the type of a message,
// which describes an event or a state. All methods are safe for concurrent use, and none blocks.
type Notifier[K, M comparable] struct {
	done    <-chan struct{}
	source  Source[K] // nil if only this process publishes
	keepFor time.Duration

	mu     sync.Mutex
	topics map[K]*topic[K, M]
	idle   int // number of topics without a subscription
}

// Source delivers the messages of other processes. It calls Publish for each message, Confirm when
// it will miss no further message of a topic, and Notify for a topic of which it may have missed
// messages. The notifier calls the methods of Source with its lock held, so they must not block or
// call the notifier.
type Source[K comparable] interface {
	Subscribe(topic K)
	Unsubscribe(topic K)
}

// topic contains the subscriptions to one name.
type topic[K, M comparable] struct {
	name      K
	seats     []seat[K, M]
	confirmed chan struct{} // closed by Confirm; nil if there is no source
	since     time.Time     // time at which the last subscription was closed
}

// seat is the entry of a subscription in a topic. nth is the index of the topic in the places of
// the subscription.
type seat[K, M comparable] struct {
	subscription *Subscription[K, M]
	nth          int
}

// New returns a notifier for the messages of this process. Blocking calls of its subscriptions end
// when done is closed.
func New[K, M comparable](done <-chan struct{}) *Notifier[K, M] {
	return &Notifier[K, M]{done: done, topics: map[K]*topic[K, M]{}}
}

// NewWithSource returns a notifier for the messages of a source. The notifier keeps its
// subscription to a topic at the source for keepFor after the last subscription was closed. A
// caller that has waited for a change usually soon waits for the next one. See Sweep.
func NewWithSource[K, M comparable](done <-chan struct{}, source Source[K], keepFor time.Duration) *Notifier[K, M] {
	n := New[K, M](done)
	n.source, n.keepFor = source, keepFor
	return n
}

// Subscribe returns a subscription to the given topics. The caller must close it. The caller must
// subscribe before it queries the state.
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

// topic returns the topic with the given name for a new subscription. It creates the topic if
// necessary.
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

// Publish sends a message to the subscriptions of a topic.
func (n *Notifier[K, M]) Publish(name K, body M) { n.tell(Message[K, M]{Topic: name, Body: body}) }

// Notify makes the subscriptions of a topic query the state, because there was a change or a
// message may have been missed.
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

// Compare reports an observed state. It does not notify subscriptions that have seen this state. If
// a subscription is querying the state, the query may precede the observation. The two states are
// then compared when the subscription reports the state that it has seen.
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

// Confirm records that the source will miss no further message of a topic. If the topic was
// confirmed before, messages may have been missed since then, so its subscriptions query the state.
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

// Resubscribe calls reset and then subscribes to all topics at the source. It holds the lock, so no
// topic is added or removed in between.
func (n *Notifier[K, M]) Resubscribe(reset func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	reset()
	for name := range n.topics {
		n.source.Subscribe(name)
	}
}

// Sweep unsubscribes at the source from topics that have had no subscription for keepFor.
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

// Any reports whether any topic has a subscription.
func (n *Notifier[K, M]) Any() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.topics) > n.idle
}

// Topics returns the topics that have subscriptions.
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

// Resting returns the number of subscriptions to a topic that have queried the state and have no
// messages.
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
