package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store/notify"
)

// pubsub receives the messages that scripts publish, on one connection for all callers of this
// process. It connects at the first subscription.
//
// The messages are hints and may be lost with the connection. Therefore pubsub notifies all waiters
// after it has renewed a subscription, and they recheck.
type pubsub struct {
	topics *notify.Notifier[string, string] // subscribers by channel of the server
	client redis.UniversalClient
	ctx    context.Context // ended by close
	cancel context.CancelFunc
	work   sync.WaitGroup
	orders chan struct{} // receives a value after an order was added to wanted

	mu     sync.Mutex    // acquired after the mutex of topics
	conn   *redis.PubSub // nil before the first subscription
	wanted []order       // pending orders, oldest first
	closed bool
}

// order is a request to begin or to end the subscription to a channel.
type order struct {
	subscribe bool
	channel   string
}

const (
	// keepFor is the time for which a subscription is kept after its last subscriber has left. A
	// waiter usually subscribes again soon.
	keepFor = 10 * time.Second
	// silence is the time without a message after which pubsub pings the server. If the server does
	// not answer within the same time, pubsub replaces the connection.
	silence = 15 * time.Second
)

func newPubsub(client redis.UniversalClient, done <-chan struct{}) *pubsub {
	p := &pubsub{client: client, orders: make(chan struct{}, 1)}
	p.topics = notify.NewWithSource[string, string](done, p, keepFor)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Subscribe requests a subscription to a channel of the server.
func (p *pubsub) Subscribe(channel string) { p.order(true, channel) }

// Unsubscribe requests the end of a subscription to a channel of the server.
func (p *pubsub) Unsubscribe(channel string) { p.order(false, channel) }

func (p *pubsub) order(subscribe bool, channel string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if p.conn == nil {
		p.conn = p.client.Subscribe(p.ctx)
		p.work.Go(p.run)
	}
	p.wanted = append(p.wanted, order{subscribe, channel})
	select {
	case p.orders <- struct{}{}:
	default: // run has an unread notification already
	}
}

// run carries out orders until close is called.
func (p *pubsub) run() {
	p.work.Go(p.receive)
	sweep := time.NewTicker(keepFor)
	defer sweep.Stop()
	for {
		select {
		case <-p.orders:
		case <-sweep.C:
			p.topics.Sweep()
		case <-p.ctx.Done():
			return
		}
		p.carryOut()
	}
}

// carryOut sends the pending orders to the server. If that fails, go-redis sends them after it has
// reconnected.
func (p *pubsub) carryOut() {
	for {
		p.mu.Lock()
		conn, wanted := p.conn, p.wanted
		p.wanted = nil
		p.mu.Unlock()
		if len(wanted) == 0 || p.ctx.Err() != nil {
			return
		}
		for len(wanted) > 0 {
			n := 0
			var channels []string
			for n < len(wanted) && wanted[n].subscribe == wanted[0].subscribe {
				channels = append(channels, wanted[n].channel)
				n++
			}
			if wanted[0].subscribe {
				_ = conn.Subscribe(p.ctx, channels...)
			} else {
				_ = conn.Unsubscribe(p.ctx, channels...)
			}
			wanted = wanted[n:]
		}
	}
}

// receive passes published messages on until close is called.
func (p *pubsub) receive() {
	asked := false
	for p.ctx.Err() == nil {
		message, err := p.conn.ReceiveTimeout(p.ctx, silence)
		var timeout interface{ Timeout() bool }
		switch {
		case err == nil:
			asked = false
			p.pass(message)
		case errors.As(err, &timeout) && timeout.Timeout() && !asked:
			asked = p.conn.Ping(p.ctx) == nil
		default:
			p.renew()
			asked = false
		}
	}
}

// renew replaces the connection after a delay of 100 ms.
func (p *pubsub) renew() {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ctx.Done():
		return
	}
	old := p.conn
	p.topics.Resubscribe(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.conn, p.wanted = p.client.Subscribe(p.ctx), nil
	})
	_ = old.Close()
}

// pass sends a message to the subscribers of its channel.
func (p *pubsub) pass(message any) {
	switch m := message.(type) {
	case *redis.Message:
		p.topics.Publish(m.Channel, m.Payload)
	case *redis.Subscription:
		if m.Kind == "subscribe" {
			p.topics.Confirm(m.Channel)
		}
	}
}

// close ends the goroutines and closes the connection.
func (p *pubsub) close() {
	p.cancel()
	p.mu.Lock()
	p.closed = true
	conn := p.conn
	p.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // fails if there is no connection, or if it is already closed
	}
	p.work.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil && p.conn != conn {
		_ = p.conn.Close()
	}
}

// subscription receives the hints from scripts.
type subscription = notify.Subscription[string, string]

// hint is one published message.
type hint = notify.Message[string, string]

// retained keeps the subscription of an ended Wait for the next Wait of the same sessions. The
// subscription has received everything that happened since the last probe, so the next Wait needs
// no probe if it has the same routes.
//
// This is correct because each wake, block, earlier due time and item for an owned run is published
// by the action that causes it, and because a probe takes all wakes of its routes. There are two
// exceptions. Other routes were not probed by the earlier Wait. A due time after the end of the
// earlier Wait was not reported, but may be relevant for the next Wait, which then probes the
// partition.
type retained struct {
	mu  sync.Mutex
	all map[string]*retainedOne // by the codes of the waiting sessions
}

type retainedOne struct {
	subscription *subscription
	routes       string
	parts        []*partitionWait
	since        time.Time // end of the Wait
	timer        *time.Timer
}

// take removes and returns the kept subscription of the sessions who, or nil if there is none.
// informed reports whether the subscription was for the same routes. parts contains the state of
// each partition at the end of the earlier Wait.
func (r *retained) take(who, routes string) (s *subscription, informed bool, parts []*partitionWait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	one := r.all[who]
	if one == nil {
		return nil, false, nil
	}
	delete(r.all, who)
	one.timer.Stop()
	return one.subscription, one.routes == routes, one.parts
}

// keep keeps a subscription open for keepFor.
func (r *retained) keep(who, routes string, s *subscription, parts []*partitionWait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]*retainedOne{}
	}
	if before := r.all[who]; before != nil { // two Waits of the same sessions were in progress
		before.timer.Stop()
		before.subscription.Close()
	}
	one := &retainedOne{subscription: s, routes: routes, parts: parts, since: time.Now()}
	one.timer = time.AfterFunc(keepFor, func() { r.drop(who, one) })
	r.all[who] = one
}

// learn records the next due time of a partition, as returned by a claim that was sent after the
// last Wait of the session had ended. The claim has handled everything that was published before
// it. Later messages are in the subscription, which the next Wait reads. Therefore the next Wait
// does not probe because of a due time that has passed.
func (r *retained) learn(p *partition, session string, next int64, sent time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.all {
		for _, part := range one.parts {
			if part.p == p && part.session == session && sent.After(one.since) {
				part.next = next
			}
		}
	}
}

// hints returns and clears the routes for which a Wait of the session has relied on a claim instead
// of a probe.
func (r *retained) hints(p *partition, session string) (routes []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.all {
		for _, part := range one.parts {
			if part.p == p && part.session == session {
				routes, part.hints = part.hints, nil
			}
		}
	}
	return routes
}

func (r *retained) drop(who string, one *retainedOne) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all[who] == one {
		delete(r.all, who)
		one.subscription.Close()
	}
}

// close closes all kept subscriptions.
func (r *retained) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for who, one := range r.all {
		one.timer.Stop()
		delete(r.all, who)
		one.subscription.Close()
	}
}
