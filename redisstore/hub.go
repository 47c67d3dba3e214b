package redisstore

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

// hub receives the notifications that scripts publish, for everybody in this process,
// on one connection. It begins with the first subscription.
//
// What is published are hints: they may be lost with the connection. So whoever
// listens is told again whenever a subscription has been renewed, and then looks.
type hub struct {
	client redis.UniversalClient
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	work   sync.WaitGroup
	orders chan struct{} // there is something in wanted

	mu     sync.Mutex
	pubsub *redis.PubSub // nil: nobody has listened yet
	topics map[string]*topic
	wanted []order // subscriptions to be made and ended, in this order
	idle   int     // topics that nobody listens to
	closed bool
}

// topic is a channel of the server that this process has subscribed to.
type topic struct {
	name  string
	ears  map[*ear]struct{}
	live  chan struct{} // closed once the server has confirmed the subscription
	since time.Time     // when the last ear was taken away
}

// order asks for a subscription, or for its end.
type order struct {
	subscribe bool
	topic     string
}

// ear is somebody who listens to topics.
type ear struct {
	hub    *hub
	topics []*topic
	bell   chan struct{} // notified when there is something in heard
	heard  []hint        // guarded by hub.mu
}

// hint is something that was published.
type hint struct {
	topic string
	text  string
	again bool // nothing was published, but something may have been missed
}

const (
	// linger is how long a subscription outlives its last ear: whoever waits for
	// one thing mostly waits for the next one soon.
	linger = 10 * time.Second
	// silence is how long nothing may be heard before the server is asked whether
	// it is there, and then before the connection is given up.
	silence = 15 * time.Second
	// hintsKept bounds what an ear remembers; beyond it looking is cheaper.
	hintsKept = 1000
)

func newHub(client redis.UniversalClient) *hub {
	h := &hub{client: client, orders: make(chan struct{}, 1), topics: map[string]*topic{}}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// listen returns an ear for topics; nil: the store is closed.
func (h *hub) listen(names ...string) *ear {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	if h.pubsub == nil {
		h.pubsub = h.client.Subscribe(h.ctx)
		h.work.Go(h.subscribe)
	}
	e := &ear{hub: h, bell: make(chan struct{}, 1)}
	for _, name := range names {
		t := h.topics[name]
		if slices.Contains(e.topics, t) {
			continue
		}
		if t == nil {
			t = &topic{name: name, ears: map[*ear]struct{}{}, live: make(chan struct{})}
			h.topics[name] = t
			h.order(true, name)
		} else if len(t.ears) == 0 {
			h.idle--
		}
		t.ears[e] = struct{}{}
		e.topics = append(e.topics, t)
	}
	return e
}

// order asks for a subscription or its end. The lock is held.
func (h *hub) order(subscribe bool, name string) {
	h.wanted = append(h.wanted, order{subscribe, name})
	h.ring()
}

// ring tells the goroutine that carries out orders.
func (h *hub) ring() {
	select {
	case h.orders <- struct{}{}:
	default: // it knows
	}
}

// await blocks until all topics are subscribed to, but not for long: without the
// server there is nothing to hear, and looking will say so.
func (e *ear) await(ctx context.Context) error {
	timer := time.NewTimer(cover)
	defer timer.Stop()
	for _, t := range e.topics {
		select {
		case <-t.live:
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-e.hub.ctx.Done():
			return store.ErrClosed
		}
	}
	return nil
}

// hints returns what was heard since the last call.
func (e *ear) hints() []hint {
	e.hub.mu.Lock()
	defer e.hub.mu.Unlock()
	heard := e.heard
	e.heard = nil
	return heard
}

// close stops listening.
func (e *ear) close() {
	h := e.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range e.topics {
		delete(t.ears, e)
		if len(t.ears) == 0 {
			t.since = time.Now()
			h.idle++
		}
	}
}

// subscribe executes orders, one after the other, until close.
func (h *hub) subscribe() {
	h.work.Go(h.receive)
	sweep := time.NewTicker(linger)
	defer sweep.Stop()
	for {
		select {
		case <-h.orders:
		case <-sweep.C:
			h.sweep()
		case <-h.ctx.Done():
			return
		}
		h.carryOut()
	}
}

// sweep ends subscriptions that nobody has used for a while.
func (h *hub) sweep() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.idle == 0 {
		return
	}
	for name, t := range h.topics {
		if len(t.ears) == 0 && time.Since(t.since) >= linger {
			delete(h.topics, name)
			h.idle--
			h.order(false, name)
		}
	}
}

// carryOut sends the orders. If that fails, go-redis sends them once it has
// reached the server again.
func (h *hub) carryOut() {
	for {
		h.mu.Lock()
		ps, wanted := h.pubsub, h.wanted
		h.wanted = nil
		h.mu.Unlock()
		if len(wanted) == 0 || h.ctx.Err() != nil {
			return
		}
		for len(wanted) > 0 {
			n := 0
			var names []string
			for n < len(wanted) && wanted[n].subscribe == wanted[0].subscribe {
				names = append(names, wanted[n].topic)
				n++
			}
			if wanted[0].subscribe {
				_ = ps.Subscribe(h.ctx, names...)
			} else {
				_ = ps.Unsubscribe(h.ctx, names...)
			}
			wanted = wanted[n:]
		}
	}
}

// receive passes published messages on until close.
func (h *hub) receive() {
	asked := false
	for h.ctx.Err() == nil {
		message, err := h.pubsub.ReceiveTimeout(h.ctx, silence)
		var timeout interface{ Timeout() bool }
		switch {
		case err == nil:
			asked = false
			h.pass(message)
		case errors.As(err, &timeout) && timeout.Timeout() && !asked:
			asked = h.pubsub.Ping(h.ctx) == nil
		default:
			h.renew()
			asked = false
		}
	}
}

// renew begins a new connection, after a while.
func (h *hub) renew() {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-h.ctx.Done():
		return
	}
	h.mu.Lock()
	old := h.pubsub
	h.pubsub = h.client.Subscribe(h.ctx)
	h.wanted = nil
	for name := range h.topics {
		h.order(true, name)
	}
	h.mu.Unlock()
	_ = old.Close()
}

// pass tells the ears of a topic.
func (h *hub) pass(message any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch m := message.(type) {
	case *redis.Message:
		if t := h.topics[m.Channel]; t != nil {
			t.tell(hint{topic: m.Channel, text: m.Payload})
		}
	case *redis.Subscription:
		t := h.topics[m.Channel]
		if t == nil || m.Kind != "subscribe" {
			return
		}
		select {
		case <-t.live:
			t.tell(hint{topic: m.Channel, again: true})
		default:
			close(t.live)
		}
	}
}

func (t *topic) tell(n hint) {
	for e := range t.ears {
		e.hear(n)
		select {
		case e.bell <- struct{}{}:
		default:
		}
	}
}

// hear keeps a hint. An ear that has too much to remember is told to look
// everywhere.
func (e *ear) hear(n hint) {
	if len(e.heard) < hintsKept+len(e.topics) {
		e.heard = append(e.heard, n)
		return
	}
	e.heard = nil
	for _, t := range e.topics {
		e.heard = append(e.heard, hint{topic: t.name, again: true})
	}
}

// close ends everything that listens.
func (h *hub) close() {
	h.cancel()
	h.mu.Lock()
	h.closed = true
	ps := h.pubsub
	h.mu.Unlock()
	if ps != nil {
		_ = ps.Close() // it was not connected, or is closed
	}
	h.work.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pubsub != nil && h.pubsub != ps {
		_ = h.pubsub.Close()
	}
}
