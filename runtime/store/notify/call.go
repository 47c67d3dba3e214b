package notify

import (
	"context"
	"errors"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// Call is one call of Wait: a waiter in each partition of its sessions. The store must join the
// partitions, check each of them for what is there already, and then call Wait.
type Call struct {
	asked   *store.Wait
	ready   chan struct{} // has a value when there may be something to return
	waiters []*Waiter
	number  []int // the partition of each waiter
}

// NewCall returns a call that has joined no partition.
func NewCall(asked *store.Wait) *Call { return &Call{asked: asked, ready: make(chan struct{}, 1)} }

// Join begins to wait in a partition, for the sessions that the Wait names in it. Until Wait or
// Leave ends it, the waiter may be given a wake.
func (c *Call) Join(ws *Waiters, partition int) *Waiter {
	w := &Waiter{of: ws, call: c, known: protocol.Millis(c.asked.Until)}
	for _, s := range c.asked.Sessions {
		if s.Partition == partition && !slices.Contains(w.sessions, s.Session) {
			w.sessions = append(w.sessions, s.Session)
		}
	}
	c.waiters, c.number = append(c.waiters, w), append(c.number, partition)
	ws.join(w, c.asked.Routes)
	return w
}

// Wait blocks until there is something to return, until the time of the Wait, until done is closed,
// or until ctx ends. A wake that was given to the call is never lost: Wait returns it even if ctx
// has ended.
func (c *Call) Wait(ctx context.Context, clock store.Clock, done <-chan struct{}) (store.Woken, error) {
	reached, err := c.block(ctx, clock, done)
	return c.Leave(reached, err)
}

// block returns once there is something to return. It reports whether the time was reached.
func (c *Call) block(ctx context.Context, clock store.Clock, done <-chan struct{}) (reached bool, err error) {
	var alarm chan struct{}
	if until := c.asked.Until; !until.IsZero() {
		d := until.Sub(clock.Now())
		if d <= 0 {
			return true, nil
		}
		alarm = make(chan struct{})
		stop := clock.AfterFunc(d, func() { close(alarm) })
		defer stop()
		if !clock.Now().Before(until) {
			return true, nil // the clock has jumped in between
		}
	}
	for !c.hasSignal() {
		select {
		case <-c.ready:
		case <-alarm:
			return true, nil
		case <-done:
			return false, store.ErrClosed
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	return false, nil
}

func (c *Call) hasSignal() bool {
	for _, w := range c.waiters {
		w.of.mu.Lock()
		signaled := w.hasSignal()
		w.rests = true
		w.of.mu.Unlock()
		if signaled {
			return true
		}
	}
	return false
}

// Leave ends the call in all partitions, with an error if it could not go on. If there is something
// to return, Leave returns it instead of the error, so that no wake is lost, unless the store is
// closed. It waits until promises are granted or withdrawn, because only then it is known whether
// there is a wake.
func (c *Call) Leave(due bool, err error) (store.Woken, error) {
	woken := store.Woken{Due: due}
	for i, w := range c.waiters {
		w.leave(&woken, c.number[i])
	}
	slices.Sort(woken.Unread)
	c.waiters = nil
	if err != nil && (errors.Is(err, store.ErrClosed) || !woken.Due && len(woken.Claim)+len(woken.Sooner)+len(woken.Unread) == 0) {
		return store.Woken{}, err
	}
	return woken, nil
}

// leave ends the wait in one partition and adds its result to woken.
func (w *Waiter) leave(woken *store.Woken, partition int) {
	ws := w.of
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w.promised {
		ws.mu.Unlock()
		<-w.call.ready
		ws.mu.Lock()
	}
	w.forgo()
	delete(ws.all, w)
	if w.claim {
		woken.Claim = append(woken.Claim, partition)
	}
	if w.due {
		woken.Sooner = append(woken.Sooner, partition)
	}
	w.take(woken)
	for _, session := range w.sessions {
		u := ws.unread[session]
		i := slices.Index(u.waiters, w)
		u.waiters = slices.Delete(u.waiters, i, i+1)
		ws.tidy(session)
	}
}
