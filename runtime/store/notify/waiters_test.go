package notify_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/notify"
)

var route, other = store.Route{Queue: "q", Workflow: "a"}, store.Route{Queue: "q", Workflow: "b"}

// partition simulates the part of a store that a Wait needs.
type partition struct {
	waiters *notify.Waiters
	done    chan struct{}

	mu   sync.Mutex
	wake bool // a wake that no waiter has taken
	runs int  // number of runs to be claimed
}

func newPartition() *partition {
	return &partition{waiters: notify.NewWaiters(), done: make(chan struct{})}
}

func (p *partition) add() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.runs++
	p.wake = p.wake || !p.waiters.Wake(route)
}

func (p *partition) claim() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	claimed := p.runs > 0
	if claimed {
		p.runs--
	}
	if p.runs > 0 { // as in Claim, the wake is set again if runs remain
		p.wake = p.wake || !p.waiters.Wake(route)
	}
	return claimed
}

func (p *partition) wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	call := notify.NewCall(&w)
	p.mu.Lock()
	waiter := call.Join(p.waiters, 0)
	waiter.Found(0)
	if p.wake {
		p.wake = false
		waiter.Claim()
	}
	p.mu.Unlock()
	return call.Wait(ctx, store.SystemClock, p.done)
}

func waitOf(session store.SessionID, routes ...store.Route) store.Wait {
	return store.Wait{Sessions: []store.WaitSession{{Session: session}}, Routes: routes}
}

// TestWaiters_LoseNoWake proves that each announced run is claimed while calls of Wait begin and
// end, some of them immediately. Each run is announced once, so a lost wake leaves a run that no
// worker claims.
func TestWaiters_LoseNoWake(t *testing.T) {
	const workers, runs = 4, 200
	ctx, p := within(t), newPartition()
	claimed := make(chan error, runs)
	ctx, cancel := context.WithCancel(ctx)
	var g sync.WaitGroup
	for worker := range workers {
		g.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				short, stop := context.WithCancel(ctx)
				if worker == 0 && n%2 == 0 {
					stop() // the waiter may have received a wake before
				}
				woken, err := p.wait(short, waitOf(store.SessionID(fmt.Sprint(worker)), route))
				stop()
				if err == nil && len(woken.Claim) > 0 && p.claim() {
					claimed <- nil
				}
			}
		})
	}
	for n := range runs {
		p.add()
		select {
		case <-claimed:
		case <-time.After(30 * time.Second):
			t.Fatalf("run %d of %d was not claimed", n+1, runs)
		}
	}
	cancel()
	g.Wait()
	equal(t, "waiters, routes and sessions left", p.waiters.Left(), 0)
}

func TestWake_GoesToTheLongestWaitWithoutOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartition()
		woken := make(chan string, 3)
		for _, name := range []store.SessionID{"first", "second", "third"} {
			go func() {
				if got, err := p.wait(t.Context(), waitOf(name, route)); err == nil && len(got.Claim) == 1 {
					woken <- string(name)
				}
			}()
			synctest.Wait()
		}
		var order []string
		for range 3 {
			equal(t, "somebody was there", p.waiters.Wake(route), true)
			order = append(order, <-woken)
		}
		equal(t, "order", order, []string{"first", "second", "third"})
		equal(t, "somebody was there", p.waiters.Wake(route), false)
	})
}

func TestPromise_IsWaitedFor(t *testing.T) {
	for name, kept := range map[string]bool{"and kept": true, "and withdrawn": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPartition()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() {
					woken, err := p.wait(ctx, waitOf("s", route))
					if err == nil && len(woken.Claim) != 1 {
						err = fmt.Errorf("woken for %+v", woken)
					}
					ended <- err
				}()
				synctest.Wait()
				w := p.waiters.Promise(route)
				equal(t, "somebody else is there", p.waiters.Promise(route) != nil, false)
				cancel()
				synctest.Wait()
				equal(t, "ended before it is known whether there is a wake", len(ended), 0)
				if kept {
					w.Grant()
					equal(t, "error", <-ended, nil)
					return
				}
				w.Withdraw()
				if err := <-ended; !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want %v", err, context.Canceled)
				}
			})
		})
	}
}

func TestPromise_ThatIsWithdrawnLeavesItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartition()
		ended := make(chan string, 2)
		for _, name := range []store.SessionID{"first", "second"} {
			go func() {
				if got, err := p.wait(t.Context(), waitOf(name, route)); err == nil && len(got.Claim) == 1 {
					ended <- string(name)
				}
			}()
			synctest.Wait()
		}
		p.waiters.Promise(route).Withdraw()
		synctest.Wait()
		equal(t, "ended", len(ended), 0)
		p.waiters.Wake(route)
		equal(t, "woken", <-ended, "first")
		p.waiters.Wake(route)
		<-ended
	})
}

func TestUnread_IsToldOnce(t *testing.T) {
	past := waitOf("s")
	past.Until = time.Now().Add(-time.Hour)
	unread := func(p *partition) []event.RunID {
		woken, err := p.wait(t.Context(), past)
		equal(t, "error", err, nil)
		return woken.Unread
	}
	for _, c := range []struct {
		what string
		do   func(ws *notify.Waiters)
		want []event.RunID
	}{
		{"nothing", func(*notify.Waiters) {}, nil},
		{"two items of one run", func(ws *notify.Waiters) { ws.Unread("s", "r", 1); ws.Unread("s", "r", 2) }, []event.RunID{"r"}},
		{"items without a number", func(ws *notify.Waiters) { ws.Unread("s", "b", 0); ws.Unread("s", "a", 0) }, []event.RunID{"a", "b"}},
		{"another session", func(ws *notify.Waiters) { ws.Unread("t", "r", 1) }, nil},
		{"an item that it knows", func(ws *notify.Waiters) { ws.Known("s", "r", 2); ws.Unread("s", "r", 2) }, nil},
		{"one after that", func(ws *notify.Waiters) { ws.Known("s", "r", 2); ws.Unread("s", "r", 3) }, []event.RunID{"r"}},
		{"one that was read", func(ws *notify.Waiters) { ws.Unread("s", "r", 1); ws.Read("s", "r") }, nil},
		{"a run that was lost", func(ws *notify.Waiters) { ws.Unread("s", "r", 1); ws.Lost("s", "r") }, nil},
		{"the same item after it was lost", func(ws *notify.Waiters) { ws.Known("s", "r", 1); ws.Lost("s", "r"); ws.Unread("s", "r", 1) }, []event.RunID{"r"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			p := newPartition()
			p.waiters.OpenSession("s")
			c.do(p.waiters)
			equal(t, "first Wait", unread(p), c.want)
			equal(t, "second Wait", unread(p), nil)
		})
	}
}

func TestDue_IsToldToThoseWhoKnowOnlyOfLaterTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, now := newPartition(), time.Now()
		ended := make(chan time.Duration, 3)
		for _, after := range []time.Duration{time.Hour, 3 * time.Hour} {
			w := waitOf("s")
			w.Until = now.Add(after)
			go func() {
				if woken, err := p.wait(t.Context(), w); err == nil && (woken.Due || len(woken.Sooner) == 1) {
					ended <- after
				}
			}()
		}
		synctest.Wait()
		p.waiters.Due(now.Add(2 * time.Hour).UnixMilli())
		synctest.Wait()
		equal(t, "told", len(ended), 1)
		equal(t, "who", <-ended, 3*time.Hour)
		equal(t, "at its own time", <-ended, time.Hour)
		equal(t, "time", time.Since(now), time.Hour)
	})
}

func TestWakeAll_WakesThoseOfTheRouteWhoMay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartition()
		woken := make(chan string, 4)
		wait := func(session store.SessionID, routes ...store.Route) {
			go func() {
				if got, err := p.wait(t.Context(), waitOf(session, routes...)); err == nil && len(got.Claim) == 1 {
					woken <- string(session)
				}
			}()
			synctest.Wait()
		}
		wait("a", route)
		wait("may not", route)
		wait("b", other, route)
		wait("of another route", other)
		p.waiters.WakeAll(route, func(s store.SessionID) bool { return s != "may not" })
		synctest.Wait()
		equal(t, "woken", len(woken), 2)
		p.waiters.WakeEverybody()
		synctest.Wait()
		equal(t, "woken then", len(woken), 4)
	})
}

func TestCall_EndsWithItsStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPartition()
		ended := make(chan error, 10)
		for range cap(ended) {
			go func() {
				_, err := p.wait(t.Context(), waitOf("s", route))
				ended <- err
			}()
		}
		synctest.Wait()
		close(p.done)
		for range cap(ended) {
			if err := <-ended; !errors.Is(err, store.ErrClosed) {
				t.Errorf("got %v, want %v", err, store.ErrClosed)
			}
		}
		equal(t, "anybody", p.waiters.Any(), false)
	})
}
