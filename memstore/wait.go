package memstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// waiting is one blocked Wait in one partition. An operation that has something for it
// notes that here, under the mutex of the partition, and notifies it.
type waiting struct {
	p       *partition
	session store.SessionID
	classes []*class
	known   int64 // due times from here on are no news; 0: all are
	bell    chan struct{}

	claim bool // a wake was handed over
	due   bool // an earlier due time was set
}

func (w *waiting) ring() {
	select {
	case w.bell <- struct{}{}:
	default: // it has been rung
	}
}

// Wait blocks until there may be something to do. If Until is zero, a due time
// is news if it is earlier than all that were set when Wait was called.
func (s *Store) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	if err := s.enter(ctx); err != nil {
		return store.Woken{}, err
	}
	for _, o := range w.Sessions {
		if _, err := s.enterPartition(ctx, o.Partition); err != nil {
			return store.Woken{}, fmt.Errorf("wait for session %s: %w", o.Session, err)
		}
	}
	bell := make(chan struct{}, 1)
	waits := make([]*waiting, 0, len(w.Sessions))
	for _, o := range w.Sessions {
		waits = append(waits, s.parts[o.Partition].listen(o.Session, &w, bell))
	}
	reached, err := s.block(ctx, w.Until, waits, bell)
	woken := store.Woken{Due: reached}
	for _, wait := range waits {
		wait.leave(&woken)
	}
	if err != nil && (errors.Is(err, store.ErrClosed) || !woken.Due && len(woken.Claim) == 0 && len(woken.Mail) == 0) {
		return store.Woken{}, err
	}
	return woken, nil // even if ctx has ended: a wake that was taken must not be lost
}

// block returns once there is news for one of the Waits. It reports whether the
// time until was reached.
func (s *Store) block(ctx context.Context, until time.Time, waits []*waiting, bell chan struct{}) (reached bool, err error) {
	var alarm chan struct{}
	if !until.IsZero() {
		d := until.Sub(s.clock.Now())
		if d <= 0 {
			return true, nil
		}
		alarm = make(chan struct{})
		stop := s.clock.AfterFunc(d, func() { close(alarm) })
		defer stop()
		if !s.clock.Now().Before(until) {
			return true, nil // the clock has jumped in between
		}
	}
	for !slices.ContainsFunc(waits, (*waiting).hasNews) {
		select {
		case <-bell:
		case <-alarm:
			return true, nil
		case <-s.done:
			return false, store.ErrClosed
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return false, nil
}

// listen registers a Wait and takes a wake that is there already.
func (p *partition) listen(session store.SessionID, o *store.Wait, bell chan struct{}) *waiting {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := &waiting{p: p, session: session, known: millis(o.Until), bell: bell}
	if next := p.timers.next(); w.known == 0 {
		w.known = next
	} else {
		w.due = next != 0 && next < w.known
	}
	p.waits[w] = struct{}{}
	p.listeners[session] = append(p.listeners[session], w)
	for _, known := range o.Classes {
		c := p.class(known)
		if c.wake {
			c.wake, w.claim = false, true
			break
		}
		w.classes = append(w.classes, c)
	}
	if w.claim {
		w.classes = nil
	}
	for _, c := range w.classes {
		c.idle = append(c.idle, w)
	}
	return w
}

// wake announces that there may be something to claim in a class: to the Wait
// that has been idle for longest, else to the next that comes.
func (p *partition) wake(c *class) {
	if c.wake {
		return
	}
	if len(c.idle) == 0 {
		c.wake = true
		return
	}
	w := c.idle[0]
	w.claim = true
	w.busy()
	w.ring()
}

// busy takes the Wait out of the idle lists: one wake is enough.
func (w *waiting) busy() {
	for _, c := range w.classes {
		if i := slices.Index(c.idle, w); i >= 0 {
			c.idle = slices.Delete(c.idle, i, i+1)
			w.p.tidy(c)
		}
	}
	w.classes = nil
}

// tell announces a new item of an owned run to whoever waits for its session.
func (p *partition) tell(r *run) {
	r.owner.addNews(r)
	for _, w := range p.listeners[r.owner.id] {
		w.ring()
	}
}

// tellDue announces a new earliest due time to those who do not know it.
func (p *partition) tellDue(due int64) {
	for w := range p.waits {
		if w.known == 0 || due < w.known {
			w.due = true
			w.ring()
		}
	}
}

// hasNews reports whether there is anything that the Wait should return.
func (w *waiting) hasNews() bool {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	l := w.p.sessions[w.session]
	return w.claim || w.due || l != nil && len(l.news) > 0
}

// leave ends the Wait in its partition and adds to woken what there was for it.
func (w *waiting) leave(woken *store.Woken) {
	w.p.mu.Lock()
	defer w.p.mu.Unlock()
	w.busy()
	delete(w.p.waits, w)
	w.p.forget(w)
	if w.claim && !slices.Contains(woken.Claim, w.p.number) {
		woken.Claim = append(woken.Claim, w.p.number)
	}
	woken.Due = woken.Due || w.due
	if l := w.p.sessions[w.session]; l != nil && len(l.news) > 0 {
		woken.Mail = append(woken.Mail, ids(l.news)...)
		clear(l.news)
	}
}

// forget takes a Wait off the listeners of its session.
func (p *partition) forget(w *waiting) {
	all := p.listeners[w.session]
	i := slices.Index(all, w)
	switch {
	case i < 0:
	case len(all) == 1:
		delete(p.listeners, w.session)
	default:
		p.listeners[w.session] = slices.Delete(all, i, i+1)
	}
}

// watch is everybody who waits for the next frame of one run. Runs that nobody
// watches cost nothing, and a commit closes one channel for any number.
type watch struct {
	next chan struct{} // closed by the next frame
	n    int
}

// publish ends the Watches of a run.
func (p *partition) publish(r *run) {
	if w := p.watches[r]; w != nil {
		delete(p.watches, r)
		close(w.next)
	}
}

// Watch blocks until the log of a run has more than n frames.
func (s *Store) Watch(ctx context.Context, run event.RunID, n uint64) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	p := s.partitionOf(run)
	for {
		r, w := p.watch(run, n)
		switch {
		case r == nil:
			return fmt.Errorf("watch run %s: %w", run, store.ErrRunNotFound)
		case w == nil:
			return nil
		}
		select {
		case <-w.next:
		case <-s.done:
			p.unwatch(r, w)
			return store.ErrClosed
		case <-ctx.Done():
			p.unwatch(r, w)
			return ctx.Err()
		}
	}
}

// watch returns the run, and what to wait for if it has no more than n frames.
func (p *partition) watch(id event.RunID, n uint64) (*run, *watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.find(id)
	if r == nil || uint64(len(r.frames)) > n {
		return r, nil
	}
	w := p.watches[r]
	if w == nil {
		w = &watch{next: make(chan struct{})}
		p.watches[r] = w
	}
	w.n++
	return r, w
}

// unwatch gives up before the frame came.
func (p *partition) unwatch(r *run, w *watch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.n--; w.n == 0 && p.watches[r] == w {
		delete(p.watches, r)
	}
}
