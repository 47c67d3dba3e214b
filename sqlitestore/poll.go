package sqlitestore

import (
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

const (
	// pollInterval is how often it is asked whether another process has
	// written, while somebody waits.
	pollInterval = 10 * time.Millisecond
	// probeEvery is after how many of these intervals it is asked whether the
	// processes of other sessions are still there.
	probeEvery = 25
	// pollShare bounds what looking costs when there is much to look at: it
	// takes at most one part in so many of the time.
	pollShare = 10
)

// poller is the one goroutine that notices what other processes do. It sleeps
// while nobody waits. The system's clock is right here, whatever clock the store
// has: it is about what the other processes of the machine do.
type poller struct {
	s       *Store
	c       *conn     // nil: not opened yet
	version int64     // of the data, as c has last seen it
	own     uint64    // transactions of this store by then
	foreign bool      // somebody else has written since the last look
	rest    time.Time // it does not look again before
}

func (s *Store) poll() {
	defer close(s.polled)
	p := &poller{s: s}
	for {
		select {
		case <-s.ctx.Done():
			if p.c != nil {
				_ = p.c.Close() // it has only read
			}
			return
		case <-s.hub.joined:
			p.run()
		}
	}
}

// run polls as long as somebody waits.
func (p *poller) run() {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for ticks := 1; p.s.hub.needed(); {
		select {
		case <-p.s.ctx.Done():
			return
		case <-p.s.foreign:
			p.foreign = true
		case <-tick.C:
			p.ask()
			if ticks++; ticks%probeEvery == 0 {
				p.s.probe()
			}
		}
		if p.foreign && !time.Now().Before(p.rest) {
			p.foreign = false
			p.rest = time.Now().Add(pollShare * p.s.lookForAll())
		}
	}
}

// ask finds out whether anybody has written. If this store has, too, only the
// connection of its writer can tell whether anybody else has. A failure shows up
// wherever the database is used.
func (p *poller) ask() {
	if p.c == nil {
		c, err := p.s.readers.open(p.s.ctx)
		if err != nil {
			return
		}
		p.c = c
	}
	own := p.s.writer.commits.Load()
	version, err := p.c.number(dataVersion)
	switch {
	case err != nil || version == p.version:
		return
	case own == p.own:
		p.foreign = true
	default:
		signal(p.s.writer.poke)
	}
	p.version, p.own = version, own
}

// needed reports whether anybody waits.
func (h *hub) needed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiters) > 0 || len(h.watches) > 0 || len(h.awaits) > 0
}

// lookForAll looks on behalf of everybody who waits, and returns how long the
// reading took. A failure is not reported: whoever waits comes back by itself.
func (s *Store) lookForAll() time.Duration {
	sessions, runs := s.hub.interests()
	streams := s.hub.awaited()
	found, err := s.survey(s.ctx, sessions, runs, streams)
	if err != nil {
		return pollInterval
	}
	s.hub.compare(found, runs)
	s.hub.compareStreams(found.streams)
	s.hub.offer(found)
	s.writer.passOn(found.wakes)
	return found.took
}

// interests returns what somebody waits for, or is about to.
func (h *hub) interests() ([]store.SessionID, []event.RunID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var sessions []store.SessionID
	for session, b := range h.boxes {
		if b.waiters > 0 {
			sessions = append(sessions, session)
		}
	}
	runs := make([]event.RunID, 0, len(h.watches))
	for run := range h.watches {
		runs = append(runs, run)
	}
	return sessions, runs
}

// compare ends the Watches of those runs whose logs differ from what is known. Whoever
// has registered, but not said yet what it has seen, may have looked before what was
// found now: it is compared by saw.
func (h *hub) compare(found *survey, runs []event.RunID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, run := range runs {
		switch w := h.watches[run]; {
		case w == nil:
		case !w.seen:
			w.seen, w.known = true, found.logs[run]
		case found.logs[run] != w.known:
			h.publishFrame(run)
		}
	}
}

// serves reports whether a waiter may take the wake of the class. One that has been
// promised another may yet be disappointed.
func (h *hub) serves(class store.Class) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.ContainsFunc(h.waiters, func(w *waiter) bool {
		return !w.claim && slices.Contains(w.classes, class)
	})
}

// probe makes the workers claim if the process of another session has ended.
func (s *Store) probe() {
	var locks []string
	err := s.read(s.ctx, func(c *conn) error {
		locks = nil
		return c.query(`SELECT DISTINCT lock FROM sessions WHERE lock IS NOT NULL`, func(r row) error {
			locks = append(locks, r.ColumnText(0))
			return nil
		})
	})
	if err == nil && slices.ContainsFunc(locks, s.locks.ended) {
		s.hub.startle()
	}
}
