package redisstore

import (
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/store/notify"
)

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
