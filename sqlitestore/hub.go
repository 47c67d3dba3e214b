package sqlitestore

import (
	"maps"
	"slices"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// hub connects the waiting calls of this process with the changes in the store.
// The writer publishes what it has committed; the poller adds what other
// processes have.
type hub struct {
	mu      sync.Mutex
	closed  bool
	waiters []*waiter // longest wait first
	boxes   map[store.SessionID]*mailbox
	watches map[event.RunID]*watch
	awaits  map[event.RunID]map[string]*await // by chain and stream
	blocks  map[store.Class]int64             // how often runs were blocked, as far as somebody was told
	joined  chan struct{}                     // somebody waits
}

func newHub() *hub {
	return &hub{
		boxes:   map[store.SessionID]*mailbox{},
		watches: map[event.RunID]*watch{},
		awaits:  map[event.RunID]map[string]*await{},
		joined:  make(chan struct{}, 1),
		blocks:  map[store.Class]int64{},
	}
}

// news collects the notifications of a transaction. They are sent once the
// transaction is committed.
type news struct {
	reserved []*waiter     // each of them has been promised a wake
	stored   []store.Class // wakes for which nobody was there
	mails    []mail
	frames   []event.RunID // runs whose log has grown
	streams  []streamNews
	blocks   map[store.Class]int64 // how often runs of these classes were blocked now
	due      int64                 // the earliest due time that is earlier than all before; 0: none
	locks    []string              // of processes that have ended, and no session refers to
}

// mail is a change of the inbox of an owned run.
type mail struct {
	kind    mailKind
	session store.SessionID
	run     event.RunID
	seq     int64 // of the newest item
}

type mailKind uint8

const (
	mailNew   mailKind = iota // an item has arrived
	mailKnown                 // the claim has told of all items up to seq
	mailRead                  // the inbox is empty
	mailGone                  // the session has lost the run
)

func (n *news) mail(kind mailKind, session store.SessionID, run event.RunID, seq int64) {
	n.mails = append(n.mails, mail{kind, session, run, seq})
}

// mailbox records the state of the inboxes of the runs of a session.
type mailbox struct {
	open    bool // the session lives, and in this process
	waiters int
	told    map[event.RunID]int64    // the newest item that is no news
	news    map[event.RunID]struct{} // no Wait has told yet
}

// box returns the mailbox of a session, and makes it if need be.
func (h *hub) box(session store.SessionID) *mailbox {
	b := h.boxes[session]
	if b == nil {
		b = &mailbox{told: map[event.RunID]int64{}, news: map[event.RunID]struct{}{}}
		h.boxes[session] = b
	}
	return b
}

func (h *hub) tidy(session store.SessionID) {
	if b := h.boxes[session]; b != nil && !b.open && b.waiters == 0 {
		delete(h.boxes, session)
	}
}

// openSession begins to keep track of the unread items of a session.
func (h *hub) openSession(session store.SessionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.box(session).open = true
}

// closeSession ends that.
func (h *hub) closeSession(session store.SessionID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := h.boxes[session]; b != nil {
		b.open = false
		h.tidy(session)
	}
}

func (h *hub) deliver(m mail) {
	b := h.boxes[m.session]
	if b == nil {
		return
	}
	switch m.kind {
	case mailNew:
		if m.seq > b.told[m.run] {
			b.told[m.run] = m.seq
			b.news[m.run] = struct{}{}
		}
	case mailKnown:
		b.told[m.run] = max(m.seq, b.told[m.run])
		delete(b.news, m.run)
	case mailRead:
		delete(b.news, m.run)
	case mailGone:
		delete(b.news, m.run)
		delete(b.told, m.run)
	}
}

// publish tells everybody what a committed transaction had for them.
func (h *hub) publish(n *news) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range n.reserved {
		w.promised, w.claim = false, true
	}
	for _, m := range n.mails {
		h.deliver(m)
	}
	for _, run := range n.frames {
		h.publishFrame(run)
	}
	for _, s := range n.streams {
		h.tellFollowers(s)
	}
	if n.due != 0 {
		h.tellDue(n.due)
	}
	for class, times := range n.blocks {
		h.tellBlocked(class, times)
	}
	h.settle()
}

// withdraw takes back the promises of a transaction that was not committed.
func (h *hub) withdraw(n *news) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range n.reserved {
		w.promised = false
	}
	h.settle()
}

// offer adds what was found in the database: another process may have put it
// there.
func (h *hub) offer(found *survey) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, m := range found.mails {
		h.deliver(m)
	}
	if found.due != 0 {
		h.tellDue(found.due)
	}
	for class, times := range found.blocks {
		h.tellBlocked(class, times)
	}
	maps.DeleteFunc(h.blocks, func(class store.Class, _ int64) bool { return found.blocks[class] == 0 })
	h.settle()
}

// tellBlocked makes all who wait for a class claim, unless they were told when as many
// blocks of its runs were counted.
func (h *hub) tellBlocked(class store.Class, times int64) {
	if h.blocks[class] == times {
		return
	}
	h.blocks[class] = times
	for _, w := range h.waiters {
		w.claim = w.claim || !w.promised && slices.Contains(w.classes, class)
	}
}

func (h *hub) tellDue(due int64) {
	for _, w := range h.waiters {
		if w.known == 0 || due < w.known {
			w.due = true
		}
	}
}

// reserve promises the wake of a class to the waiter that has been there for
// longest. It reports whether there is one.
func (h *hub) reserve(class store.Class, n *news) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters {
		if !w.promised && !w.claim && slices.Contains(w.classes, class) {
			w.promised = true
			n.reserved = append(n.reserved, w)
			return true
		}
	}
	return false
}

// startle makes every idle waiter claim: there is something to recover.
func (h *hub) startle() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters {
		w.claim = w.claim || !w.promised && len(w.classes) > 0
	}
	h.settle()
}

// close ends all waiting.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, w := range slices.Clone(h.waiters) {
		h.complete(w, store.ErrClosed)
	}
	for run := range h.watches {
		h.publishFrame(run)
	}
	for chain := range h.awaits {
		h.tellFollowers(streamNews{chain: chain})
	}
}
