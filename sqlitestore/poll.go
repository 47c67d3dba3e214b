package sqlitestore

import (
	"slices"
	"time"
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
		case <-s.notifier.joined:
			p.run()
		}
	}
}

// run polls as long as somebody waits.
func (p *poller) run() {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for ticks := 1; p.s.notifier.needed(); {
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
		signal(p.s.writer.foreign)
	}
	p.version, p.own = version, own
}

// lookForAll looks on behalf of everybody who waits, and returns how long the
// reading took. A failure is not reported: whoever waits comes back by itself.
func (s *Store) lookForAll() time.Duration {
	n := s.notifier
	found, err := s.survey(s.ctx, n.waiters.Sessions(), n.frames.Topics(), n.streams.Topics())
	if err != nil {
		return pollInterval
	}
	for run, frames := range found.frames {
		n.frames.Compare(run, frames)
	}
	for topic, seen := range found.streams {
		n.streams.Compare(topic, seen)
	}
	n.offer(found)
	s.writer.passOn(found.wakes)
	return found.took
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
		s.notifier.waiters.WakeEverybody()
	}
}
