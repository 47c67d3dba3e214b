package sqlitestore

import (
	"maps"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/notify"
)

// notifier connects the waiting calls of this process with the changes in the store.
// The writer publishes what it has committed; the poller adds what other
// processes have.
type notifier struct {
	waiters *notify.Waiters
	frames  *notify.Notifier[event.RunID, uint64]   // Watches
	streams *notify.Notifier[streamTopic, standing] // AwaitStreams
	joined  chan struct{}                           // somebody waits

	mu     sync.Mutex
	blocks map[store.Route]int64 // how often runs were blocked, as far as somebody was told
}

func newNotifier(done <-chan struct{}) *notifier {
	return &notifier{
		waiters: notify.NewWaiters(),
		frames:  notify.New[event.RunID, uint64](done),
		streams: notify.New[streamTopic, standing](done),
		joined:  make(chan struct{}, 1),
		blocks:  map[store.Route]int64{},
	}
}

// notices collects what a transaction has for those who wait. They are told once the
// transaction is committed.
type notices struct {
	promised []*notify.Waiter // each of them gets a wake
	stored   []store.Route    // wakes for which nobody was there
	unread   []inboxChange
	frames   []event.RunID // runs whose log has grown
	streams  []streamTopic
	blocks   map[store.Route]int64 // how often runs of these routes were blocked now
	due      int64                 // the earliest due time that is earlier than all before; 0: none
	locks    []string              // of processes that have ended, and no session refers to
}

// inboxChange is a change of the inbox of an owned run.
type inboxChange struct {
	kind    inboxKind
	session store.SessionID
	run     event.RunID
	seq     int64 // of the newest item
}

type inboxKind uint8

const (
	inboxNew   inboxKind = iota // an item has arrived
	inboxKnown                  // the claim has told of all items up to seq
	inboxEmpty                  // the inbox is empty
	inboxLost                   // the session has lost the run
)

func (n *notices) inbox(kind inboxKind, session store.SessionID, run event.RunID, seq int64) {
	n.unread = append(n.unread, inboxChange{kind, session, run, seq})
}

func (n *notifier) tell(u inboxChange) {
	switch u.kind {
	case inboxNew:
		n.waiters.Unread(u.session, u.run, u.seq)
	case inboxKnown:
		n.waiters.Known(u.session, u.run, u.seq)
	case inboxEmpty:
		n.waiters.Read(u.session, u.run)
	case inboxLost:
		n.waiters.Lost(u.session, u.run)
	}
}

// publish tells everybody what a committed transaction had for them.
func (n *notifier) publish(t *notices) {
	for _, w := range t.promised {
		w.Grant()
	}
	for _, u := range t.unread {
		n.tell(u)
	}
	for _, run := range t.frames {
		n.frames.Notify(run)
	}
	for _, topic := range t.streams {
		n.streams.Notify(topic)
	}
	if t.due != 0 {
		n.waiters.Due(t.due)
	}
	for route, times := range t.blocks {
		n.tellBlocked(route, times)
	}
}

// withdraw takes back the promises of a transaction that was not committed.
func (n *notifier) withdraw(t *notices) {
	for _, w := range t.promised {
		w.Withdraw()
	}
}

// offer adds what was found in the database: another process may have put it
// there.
func (n *notifier) offer(found *survey) {
	for _, u := range found.unread {
		n.tell(u)
	}
	if found.due != 0 {
		n.waiters.Due(found.due)
	}
	for route, times := range found.blocks {
		n.tellBlocked(route, times)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.blocks, func(route store.Route, _ int64) bool { return found.blocks[route] == 0 })
}

// tellBlocked makes all who wait for a route claim, unless they were told when as many
// blocks of its runs were counted.
func (n *notifier) tellBlocked(route store.Route, times int64) {
	n.mu.Lock()
	known := n.blocks[route] == times
	n.blocks[route] = times
	n.mu.Unlock()
	if !known {
		n.waiters.WakeAll(route, nil)
	}
}

// promise promises the wake of a route to the waiter that has been there for
// longest. It reports whether there is one.
func (n *notifier) promise(route store.Route, t *notices) bool {
	w := n.waiters.Promise(route)
	if w != nil {
		t.promised = append(t.promised, w)
	}
	return w != nil
}

// needed reports whether anybody waits.
func (n *notifier) needed() bool { return n.waiters.Any() || n.frames.Any() || n.streams.Any() }
