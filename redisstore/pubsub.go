package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store/notify"
)

// pubsub receives what scripts publish, for everybody in this process, on one
// connection. It begins with the first subscription.
//
// What is published are hints: they may be lost with the connection. So whoever
// waits is told whenever a subscription has been renewed, and then looks.
type pubsub struct {
	topics *notify.Notifier[string, string] // by channel of the server
	client redis.UniversalClient
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	work   sync.WaitGroup
	orders chan struct{} // there is something in wanted

	mu     sync.Mutex    // comes after that of topics
	conn   *redis.PubSub // nil: nobody has subscribed yet
	wanted []order       // subscriptions to be made and ended, in this order
	closed bool
}

// order asks for a subscription, or for its end.
type order struct {
	subscribe bool
	channel   string
}

const (
	// keepFor is how long a subscription outlives the last who needed it: whoever waits for
	// one thing mostly waits for the next one soon.
	keepFor = 10 * time.Second
	// silence is how long nothing may be heard before the server is asked whether
	// it is there, and then before the connection is given up.
	silence = 15 * time.Second
)

func newPubsub(client redis.UniversalClient, done <-chan struct{}) *pubsub {
	p := &pubsub{client: client, orders: make(chan struct{}, 1)}
	p.topics = notify.NewWithSource[string, string](done, p, keepFor)
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Subscribe asks for what is published in a channel.
func (p *pubsub) Subscribe(channel string) { p.order(true, channel) }

// Unsubscribe ends that.
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
	default: // run knows
	}
}

// run executes orders, one after the other, until close.
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

// carryOut sends the orders. If that fails, go-redis sends them once it has
// reached the server again.
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

// receive passes published messages on until close.
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

// renew begins a new connection, after a while.
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

// pass tells those who are subscribed to a channel.
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

// close ends everything that receives.
func (p *pubsub) close() {
	p.cancel()
	p.mu.Lock()
	p.closed = true
	conn := p.conn
	p.mu.Unlock()
	if conn != nil {
		_ = conn.Close() // it was not connected, or is closed
	}
	p.work.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil && p.conn != conn {
		_ = p.conn.Close()
	}
}

// subscription receives hints that scripts publish.
type subscription = notify.Subscription[string, string]

// hint is one of them.
type hint = notify.Message[string, string]

// retained keeps the subscriptions of Waits that have ended for those that follow: one that
// was there all the time knows what has happened since the last look.
//
// That holds because every wake, every block, every earlier due time and every item for an owned
// run is published by the action that brings it, and a look leaves no wake of the routes. Other
// routes than before were not asked for, and a due time that did not wake a Wait
// may be one to a Wait that knows only of later ones: then the next Wait looks there.
type retained struct {
	mu  sync.Mutex
	all map[string]*retainedOne // by the sessions that wait
}

type retainedOne struct {
	subscription *subscription
	routes       string
	parts        []*partitionWait
	since        time.Time // when the Wait ended
	timer        *time.Timer
}

// take returns the subscription of whoever waits, nil if there is none, and whether it was for
// the same routes, and what it knew of each partition.
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

// keep leaves a subscription open, for a while.
func (r *retained) keep(who, routes string, s *subscription, parts []*partitionWait) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.all == nil {
		r.all = map[string]*retainedOne{}
	}
	if before := r.all[who]; before != nil { // two waited at once
		before.timer.Stop()
		before.subscription.Close()
	}
	one := &retainedOne{subscription: s, routes: routes, parts: parts, since: time.Now()}
	one.timer = time.AfterFunc(keepFor, func() { r.drop(who, one) })
	r.all[who] = one
}

// learn takes note of the next due time of a partition, as a claim has found it that was sent after the last Wait of the session
// had ended. That Wait was told of what came before, which the claim has seen, or taken; what has come since stands in the
// subscription, and the next Wait reads it. So that need not look for a due time which is over.
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

// hints returns for which routes a Wait of the session has left the look to a claim.
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

// close ends all of them.
func (r *retained) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for who, one := range r.all {
		one.timer.Stop()
		delete(r.all, who)
		one.subscription.Close()
	}
}
