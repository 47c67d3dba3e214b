package notify

import (
	"context"
	"errors"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/protocol"
)

// Call is one call of store.Wait. It has a waiter in each partition of its sessions. The store must
// join the partitions, check each of them for existing signals, and then call Wait.
type Call struct {
	asked   *store.Wait
	ready   chan struct{} // has a value if there may be something to return
	waiters []*Waiter
	number  []int // partition of each waiter
}

// NewCall returns a call that has not joined a partition.
func NewCall(asked *store.Wait) *Call { return &Call{asked: asked, ready: make(chan struct{}, 1)} }

// Join adds a waiter for the sessions of the call in a partition. The waiter may get a wake until
// Wait returns or Leave is called.
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

// Wait blocks until there is something to return, until the end time of the call, until done is
// closed, or until ctx ends. A wake that the call has received is never lost: Wait returns it even
// if ctx has ended.
func (c *Call) Wait(ctx context.Context, clock store.Clock, done <-chan struct{}) (store.Woken, error) {
	reached, err := c.block(ctx, clock, done)
	return c.Leave(reached, err)
}

// block returns when there is something to return. reached reports whether the end time of the call
// was reached.
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
			return true, nil // the clock has jumped since d was computed
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

// Leave ends the call in all partitions. err is the error with which the call would end. If there
// is something to return, Leave returns it instead of err, so that no wake is lost; only
// store.ErrClosed takes precedence. Leave waits until all promises are granted or withdrawn,
// because it is unknown before that whether there is a wake.
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

// leave removes the waiter from its partition and adds its result to woken.
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
