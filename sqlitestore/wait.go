package sqlitestore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// waiter is a blocked Wait. Once it has joined the hub, all that changes belongs to it.
type waiter struct {
	sessions []store.SessionID
	classes  []store.Class
	answer   chan answered

	known    int64 // due times from here on are no news; 0: all are
	held     bool  // it is not to be answered yet
	promised bool  // a transaction is about to give it a wake
	claim    bool  // it has a wake
	due      bool
	leaving  error // it wants to go, and is held up by a promise
	done     bool
}

type answered struct {
	woken store.Woken
	err   error
}

// Wait blocks until there may be something to do. If Until is zero it does not
// end by time, and a due time ends it if it is earlier than all that were set
// when Wait was called.
//
// It is notified of changes by this process at once; it notices changes that another
// process makes to the same file within about 10 ms.
func (s *Store) Wait(ctx context.Context, o store.Wait) (store.Woken, error) {
	if err := s.enter(ctx); err != nil {
		return store.Woken{}, err
	}
	for _, p := range o.Sessions {
		if err := s.enterPartition(ctx, p.Partition); err != nil {
			return store.Woken{}, fmt.Errorf("wait for session %s: %w", p.Session, err)
		}
	}
	w := &waiter{classes: o.Classes, known: millis(o.Until), answer: make(chan answered, 1), held: true}
	for _, p := range o.Sessions {
		w.sessions = append(w.sessions, p.Session)
	}
	if !s.hub.join(w) {
		return store.Woken{}, store.ErrClosed
	}
	if err := s.look(ctx, w); err != nil {
		return s.hub.leave(w, err)
	}
	if !o.Until.IsZero() {
		d := o.Until.Sub(s.clock.Now())
		if d <= 0 {
			s.hub.expire(w)
		} else {
			stop := s.clock.AfterFunc(d, func() { s.hub.expire(w) })
			defer stop()
			if !s.clock.Now().Before(o.Until) {
				s.hub.expire(w) // the clock has jumped in between
			}
		}
	}
	s.hub.release(w)
	select {
	case a := <-w.answer:
		return a.woken, a.err
	case <-ctx.Done():
		return s.hub.leave(w, ctx.Err())
	}
}

// look finds what was in the store before the Wait began.
func (s *Store) look(ctx context.Context, w *waiter) error {
	found, err := s.survey(ctx, w.sessions, nil, nil)
	if err != nil {
		return err
	}
	s.hub.learn(w, found.due)
	s.hub.offer(found)
	// One wake is enough, but which of them is still there, and does not go to somebody
	// who waits for longer, only the transaction knows: it stores again what is left.
	served := slices.DeleteFunc(found.wakes, func(c store.Class) bool { return !slices.Contains(w.classes, c) })
	if len(served) == 0 {
		return nil
	}
	return s.write(ctx, func(t *tx) error { return t.passOn(served...) })
}

// passOn gives those wakes of classes that are still set to waiters.
func (t *tx) passOn(classes ...store.Class) error {
	for _, c := range classes {
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

// join registers a waiter; false: the store is closed.
func (h *hub) join(w *waiter) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.waiters = append(h.waiters, w)
	for _, session := range w.sessions {
		h.box(session).waiters++
	}
	signal(h.joined)
	return true
}

// learn notes the due time that was there when a Wait began, if the Wait does not
// say itself what is known.
func (h *hub) learn(w *waiter, due int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.known == 0 {
		w.known = due
	}
}

// release lets a waiter be answered.
func (h *hub) release(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.held = false
	h.settle()
}

// expire ends a Wait because its time has come.
func (h *hub) expire(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	w.due = true
	h.settle()
}

// leave ends a Wait that was given up. If a wake was given to it, or is about to
// be, it takes the wake: a wake that is taken must not be lost.
func (h *hub) leave(w *waiter, err error) (store.Woken, error) {
	h.mu.Lock()
	if !w.done {
		w.held, w.leaving = false, err
		h.settle()
	}
	h.mu.Unlock()
	a := <-w.answer
	return a.woken, a.err
}

// settle answers every waiter that has something to be told.
func (h *hub) settle() {
	for i := 0; i < len(h.waiters); {
		w := h.waiters[i]
		switch {
		case w.held || w.promised:
			i++
		case w.claim || w.due || w.leaving == nil && h.hasMail(w):
			h.complete(w, nil) // another one has its place
		case w.leaving != nil:
			h.complete(w, w.leaving)
		default:
			i++
		}
	}
}

func (h *hub) hasMail(w *waiter) bool {
	return slices.ContainsFunc(w.sessions, func(s store.SessionID) bool { return len(h.boxes[s].news) > 0 })
}

// complete answers a waiter and forgets it.
func (h *hub) complete(w *waiter, err error) {
	a := answered{err: err}
	if err == nil {
		a.woken.Due = w.due
		if w.claim {
			a.woken.Claim = []int{0}
		}
	}
	for _, session := range w.sessions {
		b := h.boxes[session]
		if err == nil {
			for run := range b.news {
				a.woken.Mail = append(a.woken.Mail, run)
			}
			clear(b.news)
		}
		b.waiters--
		h.tidy(session)
	}
	w.done = true
	h.waiters = slices.DeleteFunc(h.waiters, func(o *waiter) bool { return o == w })
	w.answer <- a
}

// watch is everybody who waits for the next frame of one run. A commit closes
// one channel for any number of them.
type watch struct {
	next  chan struct{} // closed by the next frame
	known uint64        // frames of the log, as the first of them, or the poller, has seen it
	seen  bool          // known is set
	n     int
}

// Watch blocks until the log of a run has more than n frames.
func (s *Store) Watch(ctx context.Context, run event.RunID, n uint64) error {
	for {
		if err := s.enter(ctx); err != nil {
			return err
		}
		w := s.hub.watch(run)
		if w == nil {
			return store.ErrClosed
		}
		frames, err := s.frames(ctx, run)
		if err != nil || frames == 0 || frames > n {
			s.hub.unwatch(run, w)
			if err == nil && frames == 0 {
				err = fmt.Errorf("watch run %s: %w", run, store.ErrRunNotFound)
			}
			return err
		}
		s.hub.saw(run, w, frames)
		select {
		case <-w.next:
		case <-ctx.Done():
			s.hub.unwatch(run, w)
			return ctx.Err()
		}
	}
}

const selectFrames = `SELECT n FROM runs WHERE id = +? AND hidden = 0`

// frames returns the number of frames of a run, 0 if there is no such run.
func (s *Store) frames(ctx context.Context, run event.RunID) (uint64, error) {
	var n int64
	err := s.read(ctx, func(c *conn) (err error) {
		n, err = c.number(selectFrames, packRun(run))
		return err
	})
	return uint64(n), ofRun(run, 0, err)
}

// watch registers for the next frame of a run; nil: the store is closed.
func (h *hub) watch(run event.RunID) *watch {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil
	}
	w := h.watches[run]
	if w == nil {
		w = &watch{next: make(chan struct{})}
		h.watches[run] = w
	}
	w.n++
	signal(h.joined)
	return w
}

// saw notes how long a watched log was. If it has grown since somebody else
// looked, that one has not been told yet.
func (h *hub) saw(run event.RunID, w *watch, frames uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.watches[run] != w {
		return // told meanwhile
	}
	if w.seen && frames != w.known {
		h.publishFrame(run)
		return
	}
	w.seen, w.known = true, frames
}

// publishFrame ends the Watches of a run.
func (h *hub) publishFrame(run event.RunID) {
	if w := h.watches[run]; w != nil {
		delete(h.watches, run)
		close(w.next)
	}
}

// unwatch gives up before the frame came.
func (h *hub) unwatch(run event.RunID, w *watch) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if w.n--; w.n == 0 && h.watches[run] == w {
		delete(h.watches, run)
	}
}

// survey holds the state of the database that matters to waiting calls.
type survey struct {
	wakes []store.Class
	mails []mail
	due   int64 // the next due time, 0: none
	// blocks is how often runs of the classes were blocked; absent: never.
	blocks map[store.Class]int64
	logs   map[event.RunID]uint64 // frames of the watched runs; absent: not there
	// streams are those that are awaited, as they stand.
	streams []awaited
	took    time.Duration
}

// survey looks for everything that could concern these sessions, runs and streams.
func (s *Store) survey(ctx context.Context, sessions []store.SessionID, runs []event.RunID, streams []awaited) (*survey, error) {
	var found *survey
	start := time.Now()
	err := s.readAside(ctx, func(c *conn) error {
		found = &survey{logs: make(map[event.RunID]uint64, len(runs)), blocks: map[store.Class]int64{}}
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
		f.wakes = append(f.wakes, store.Class{Queue: r.ColumnText(0), Workflow: r.ColumnText(1)})
		return nil
	})
	if err != nil {
		return err
	}
	err = c.query(`SELECT queue, workflow, blocks FROM classes WHERE blocks > 0`, func(r row) error {
		f.blocks[store.Class{Queue: r.ColumnText(0), Workflow: r.ColumnText(1)}] = r.ColumnInt64(2)
		return nil
	})
	if err != nil {
		return err
	}
	for _, session := range sessions {
		err := c.query(`SELECT r.id, (SELECT max(i.seq) FROM inbox i WHERE i.run = r.key)
			FROM sessions s JOIN runs r ON r.owner = s.id AND r.inbox > 0 /*readable r.key*/ WHERE s.name = +?`, func(r row) error {
			f.mails = append(f.mails, mail{mailNew, session, unpackRun(r, 0), r.ColumnInt64(1)})
			return nil
		}, string(session))
		if err != nil {
			return err
		}
	}
	for _, run := range runs {
		n, err := c.number(selectFrames, packRun(run))
		if err != nil && !ofOneRun(err) {
			return err
		}
		if n > 0 { // a damaged run is as good as gone: whoever watches it looks, and is told
			f.logs[run] = uint64(n)
		}
	}
	f.due, err = c.nextDue()
	return err
}
