package sqlitestore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/notify"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

// Wait blocks until there may be something to do. If o.Until is zero, there is no time limit. Wait
// also returns if a due time is set that is earlier than all due times known when Wait was called.
//
// Changes of this process are notified at once. Changes of another process to the same file are
// detected within about 10 ms.
func (s *Store) Wait(ctx context.Context, o store.Wait) (store.Woken, error) {
	if err := s.enter(ctx); err != nil {
		return store.Woken{}, err
	}
	for _, p := range o.Sessions {
		if err := s.enterPartition(ctx, p.Partition); err != nil {
			return store.Woken{}, fmt.Errorf("wait for session %s: %w", p.Session, err)
		}
	}
	call := notify.NewCall(&o)
	w := call.Join(s.notifier.waiters, 0)
	signal(s.notifier.joined)
	if err := s.look(ctx, w, &o); err != nil {
		return call.Leave(false, err)
	}
	return call.Wait(ctx, s.clock, s.ctx.Done())
}

// look checks the store for changes that were committed before the call joined the waiting calls.
func (s *Store) look(ctx context.Context, w *notify.Waiter, o *store.Wait) error {
	sessions := make([]store.SessionID, 0, len(o.Sessions))
	for _, p := range o.Sessions {
		sessions = append(sessions, p.Session)
	}
	found, err := s.survey(ctx, sessions, nil, nil)
	if err != nil {
		return err
	}
	w.Found(found.due)
	s.notifier.offer(found)
	// One wake is sufficient. Only the transaction can determine which of the wakes still exist and
	// are not assigned to a call that has waited longer. It stores the other wakes again.
	served := slices.DeleteFunc(found.wakes, func(c store.Route) bool { return !slices.Contains(o.Routes, c) })
	if len(served) == 0 {
		return nil
	}
	return s.write(ctx, func(t *tx) error { return t.passOn(served...) })
}

// passOn assigns the set wakes of the routes to waiting calls.
func (t *tx) passOn(routes ...store.Route) error {
	for _, c := range routes {
		set, err := t.number(`SELECT id FROM classes WHERE queue = +? AND workflow = +? AND wake = 1`, c.Queue, c.Workflow)
		if err != nil {
			return err
		}
		if set != 0 {
			t.wake(set)
		}
	}
	return nil
}

// Watch blocks until the log of a run has more than n frames or the run has ended.
func (s *Store) Watch(ctx context.Context, run event.RunID, n uint64) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	changes := s.notifier.frames.Subscribe(run)
	defer changes.Close()
	signal(s.notifier.joined)
	return changes.Await(ctx, notify.Awaiting[event.RunID, uint64]{Look: func() (uint64, bool, error) {
		frames, ended, err := s.frames(ctx, run)
		if err == nil && frames == 0 {
			err = fmt.Errorf("watch run %s: %w", run, store.ErrRunNotFound)
		}
		return frames, store.Watched(n, frames, ended), err
	}})
}

const selectFrames = `SELECT n, place FROM runs WHERE id = +? AND hidden = 0`

// frames returns the number of frames of a run, and whether the run has ended. The number is 0 if
// the run does not exist.
func (s *Store) frames(ctx context.Context, run event.RunID) (frames uint64, ended bool, err error) {
	if err := s.enter(ctx); err != nil {
		return 0, false, err
	}
	err = s.read(ctx, func(c *conn) error {
		return c.query(selectFrames, func(r row) error {
			frames, ended = uint64(r.ColumnInt64(0)), store.QueueState(r.ColumnInt64(1)) == store.StateEnded
			return nil
		}, run)
	})
	return frames, ended, ofRun(run, 0, err)
}

// survey is the part of the database state for which calls wait.
type survey struct {
	wakes  []store.Route
	unread []inboxChange
	due    int64 // next due time; 0 if none
	// blocks is the number of blocks of runs of each route. A missing route has none.
	blocks map[store.Route]int64
	told   int64                  // notifier.told before the read
	frames map[event.RunID]uint64 // frames is the number of frames of each watched run; 0 if the run does not exist.
	// streams contains the states of the awaited streams.
	streams map[streamTopic]standing
	took    time.Duration
}

// survey reads the state of everything for which these sessions, watchers and stream readers may
// wait.
func (s *Store) survey(ctx context.Context, sessions []store.SessionID, runs []event.RunID, streams []streamTopic) (*survey, error) {
	var found *survey
	start, told := time.Now(), s.notifier.toldSoFar()
	err := s.readAside(ctx, func(c *conn) error {
		found = &survey{blocks: map[store.Route]int64{}, told: told}
		if err := found.read(c, sessions, runs); err != nil {
			return err
		}
		return found.readStreams(c, streams)
	})
	if err != nil {
		return nil, err
	}
	found.took = time.Since(start)
	return found, nil
}

func (f *survey) read(c *conn, sessions []store.SessionID, runs []event.RunID) error {
	err := c.query(`SELECT queue, workflow FROM classes WHERE wake = 1`, func(r row) error {
		f.wakes = append(f.wakes, store.Route{Queue: r.ColumnText(0), Workflow: r.ColumnText(1)})
		return nil
	})
	if err != nil {
		return err
	}
	err = c.query(`SELECT queue, workflow, blocks FROM classes WHERE blocks > 0`, func(r row) error {
		f.blocks[store.Route{Queue: r.ColumnText(0), Workflow: r.ColumnText(1)}] = r.ColumnInt64(2)
		return nil
	})
	if err != nil {
		return err
	}
	for _, session := range sessions {
		err := c.query(`SELECT r.id, (SELECT max(i.seq) FROM inbox i WHERE i.run = r.key)
			FROM sessions s JOIN runs r ON r.owner = s.id AND r.inbox > 0 /*readable r.key*/ WHERE s.name = +?`, func(r row) error {
			f.unread = append(f.unread, inboxChange{inboxNew, session, db.UnpackRun(r, 0), r.ColumnInt64(1)})
			return nil
		}, string(session))
		if err != nil {
			return err
		}
	}
	if len(runs) > 0 {
		f.frames = make(map[event.RunID]uint64, len(runs))
	}
	for _, run := range runs {
		n, err := c.number(selectFrames, run)
		if err != nil && !ofOneRun(err) {
			return err
		}
		f.frames[run] = uint64(n) // a damaged run counts as missing, so that its watcher is notified
	}
	f.due, err = c.nextDue()
	return err
}

// notifier connects the waiting calls of this process with changes in the store. The writer
// publishes its committed changes. The poller adds the changes of other processes.
type notifier struct {
	waiters *notify.Waiters
	frames  *notify.Notifier[event.RunID, uint64]   // notifies Watch calls
	streams *notify.Notifier[streamTopic, standing] // notifies AwaitStream calls
	joined  chan struct{}                           // notified when a call begins to wait

	mu     sync.Mutex
	blocks map[store.Route]toldBlocks // the last notification of blocks of runs of each route
	told   int64                      // number of notifications of blocks of this process
}

// toldBlocks is a notification of blocks of runs.
type toldBlocks struct {
	times int64 // number of blocks
	nth   int64 // value of notifier.told after the last notification by this process
}

func newNotifier(done <-chan struct{}) *notifier {
	return &notifier{
		waiters: notify.NewWaiters(),
		frames:  notify.New[event.RunID, uint64](done),
		streams: notify.New[streamTopic, standing](done),
		joined:  make(chan struct{}, 1),
		blocks:  map[store.Route]toldBlocks{},
	}
}

// notices collects the notifications of a transaction. They are sent after the commit.
type notices struct {
	promised []*notify.Waiter // calls that each get a wake
	stored   []store.Route    // routes with a wake for which no call waits
	unread   []inboxChange
	frames   []event.RunID // runs whose log has grown
	streams  []streamTopic
	blocks   map[store.Route]int64 // number of blocks of runs of each route in this transaction
	due      int64                 // earliest due time, if it is earlier than all others; 0 if none
	locks    []string              // locks of ended processes to which no session refers
}

// emptied returns empty notices that reuse the memory of n.
func (n *notices) emptied() notices {
	return notices{unread: n.unread[:0], frames: n.frames[:0], streams: n.streams[:0]}
}

// inboxChange is a change of the inbox of an owned run.
type inboxChange struct {
	kind    inboxKind
	session store.SessionID
	run     event.RunID
	seq     int64 // number of the newest item
}

type inboxKind uint8

const (
	inboxNew   inboxKind = iota // an item has arrived
	inboxKnown                  // the claim has reported all items up to seq
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

// publish sends the notifications of a committed transaction.
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
		n.tellBlocked(route, times, nil)
	}
}

// withdraw cancels the wakes promised by a transaction that was not committed.
func (n *notifier) withdraw(t *notices) {
	for _, w := range t.promised {
		w.Withdraw()
	}
}

// offer notifies waiting calls of changes found in the database. Another process may have made
// them.
func (n *notifier) offer(found *survey) {
	for _, u := range found.unread {
		n.tell(u)
	}
	if found.due != 0 {
		n.waiters.Due(found.due)
	}
	for route, times := range found.blocks {
		n.tellBlocked(route, times, found)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.blocks, func(route store.Route, known toldBlocks) bool {
		return found.blocks[route] == 0 && !known.after(found)
	})
}

// toldSoFar returns the number of notifications of blocks of this process.
func (n *notifier) toldSoFar() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.told
}

// after reports whether this process has sent the notification after the read of found began. The
// read may then be older than the notification. All calls that waited before the read were notified.
func (b toldBlocks) after(found *survey) bool { return b.nth > found.told }

// tellBlocked makes all calls that wait for a route claim, unless they were already notified of
// this number of blocks. found is the read that found the number, or nil for a transaction of this
// process.
func (n *notifier) tellBlocked(route store.Route, times int64, found *survey) {
	n.mu.Lock()
	known := n.blocks[route]
	told := toldBlocks{times, known.nth}
	switch {
	case found == nil:
		n.told++
		told.nth = n.told
	case known.after(found):
		told = known
	}
	n.blocks[route] = told
	n.mu.Unlock()
	if told.times != known.times {
		n.waiters.WakeAll(route, nil)
	}
}

// promise promises the wake of a route to the call that has waited longest for it. It returns false
// if no call waits.
func (n *notifier) promise(route store.Route, t *notices) bool {
	w := n.waiters.Promise(route)
	if w != nil {
		t.promised = append(t.promised, w)
	}
	return w != nil
}

// needed reports whether any call waits.
func (n *notifier) needed() bool { return n.waiters.Any() || n.frames.Any() || n.streams.Any() }

const (
	// pollInterval is the interval at which the poller checks whether another process has written.
	// The poller checks only while a call waits.
	pollInterval = 10 * time.Millisecond
	// probeEvery is the number of poll intervals between two checks whether the processes of other
	// sessions exist.
	probeEvery = 25
	// pollShare is the reciprocal of the maximum fraction of the time that polling takes.
	pollShare = 10
)

// poller is the goroutine that detects changes of other processes. It sleeps while no call waits.
// It uses the system clock and not the clock of the store, because it observes other processes of
// the machine.
type poller struct {
	s       *Store
	c       *conn     // connection of the poller; nil until it is opened
	version int64     // data version that c has read last
	own     uint64    // number of transactions of this store when version was read
	foreign bool      // another process has written since the last check
	rest    time.Time // earliest time of the next check
}

func (s *Store) poll() {
	defer close(s.polled)
	p := &poller{s: s}
	for {
		select {
		case <-s.ctx.Done():
			if p.c != nil {
				_ = p.c.Close() // the connection has only read, so the error does not matter
			}
			return
		case <-s.notifier.joined:
			p.run()
		}
	}
}

// run polls while a call waits.
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

// ask determines whether another process has written. If this store has written in the meantime,
// ask leaves the question to the writer, because only its connection ignores its own commits.
// Errors are ignored, because every other use of the database returns them as well.
func (p *poller) ask() {
	if p.c == nil {
		c, err := p.s.readers.open(p.s.ctx)
		if err != nil {
			return
		}
		p.c = c
	}
	own := p.s.writer.commits.Load()
	version, err := p.c.number(db.DataVersion)
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

// lookForAll reads the state on behalf of all waiting calls, and returns the duration of the read.
// It reports no errors, because waiting calls have their own time limits.
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

// probe makes workers claim if the process of another session has ended.
func (s *Store) probe() {
	var locks []string
	err := s.read(s.ctx, func(c *conn) error {
		locks = nil
		return c.query(`SELECT DISTINCT lock FROM sessions WHERE lock IS NOT NULL`, func(r row) error {
			locks = append(locks, r.ColumnText(0))
			return nil
		})
	})
	if err == nil && slices.ContainsFunc(locks, s.locks.Ended) {
		s.notifier.waiters.WakeEverybody()
	}
}
