package storetest

import (
	"context"
	"runtime"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// pending is the result of a call that blocks in a goroutine of its own.
type pending[T any] struct {
	answer chan T
	err    chan error
	cancel context.CancelFunc
}

// background calls f in its own goroutine and yields the processor so that f can block. A test must
// pass whether or not f has blocked, because that cannot be observed.
func background[T any](h *harness, f func(ctx context.Context) (T, error)) *pending[T] {
	ctx, cancel := context.WithCancel(h.ctx)
	p := &pending[T]{answer: make(chan T, 1), err: make(chan error, 1), cancel: cancel}
	started := make(chan struct{})
	go func() {
		close(started)
		got, err := f(ctx)
		p.answer <- got
		p.err <- err
	}()
	h.Cleanup(cancel)
	<-started
	for range 200 {
		runtime.Gosched()
	}
	return p
}

// result returns the result of the call, which must come within patience.
func (p *pending[T]) result(h *harness, what string) (T, error) {
	h.Helper()
	select {
	case got := <-p.answer:
		return got, <-p.err
	case <-time.After(patience):
		h.Fatalf("%s: still blocked after %v", what, patience)
		panic("unreachable")
	}
}

// wait calls Wait in the background.
func (h *harness) wait(w store.Wait) *pending[store.Woken] {
	return background(h, func(ctx context.Context) (store.Woken, error) { return h.store.Wait(ctx, w) })
}

// woken returns the result of a Wait that must succeed.
func (h *harness) woken(what string, p *pending[store.Woken]) store.Woken {
	h.Helper()
	got, err := p.result(h, what)
	h.check(what, err)
	return got
}

func waitFor(s store.SessionID, routes ...store.Route) store.Wait {
	return store.Wait{Sessions: []store.WaitSession{{Session: s}}, Routes: routes}
}

var waitBehaviors = []behavior{
	{"K2_WaitTakesTheWakeOfAReadyRun", func(h *harness) {
		s := h.session()
		h.equal("woken by nothing", h.poll(s, orders), store.Woken{Due: true})
		h.start()
		got := h.woken("wait", h.wait(waitFor(s, orders)))
		h.equal("claim", got.Claim, []int{0})
		h.equal("wakes", h.inspect().Wakes, map[store.Route]bool(nil))
		h.equal("woken again", h.poll(s, orders), store.Woken{Due: true})
	}},
	{"K2_OneWakePerRoute", func(h *harness) {
		s := h.session()
		h.start()
		h.start()
		h.startAs(refunds, "")
		h.equal("wakes", h.inspect().Wakes, map[store.Route]bool{orders: true, refunds: true})
		h.equal("first", h.poll(s, orders).Claim, []int{0})
		h.equal("second", h.poll(s, orders).Claim, []int(nil))
		h.equal("other route", h.poll(s, refunds).Claim, []int{0})
	}},
	{"K2_AStartWakesABlockedWait", func(h *harness) {
		s := h.session()
		p := h.wait(waitFor(s, orders))
		h.start()
		h.equal("claim", h.woken("wait", p).Claim, []int{0})
	}},
	{"K2_EverythingThatMakesReadyWakesABlockedWait", func(h *harness) {
		owner, waiter := h.session(), h.session()
		for _, c := range []struct {
			what string
			by   func(l *Log, fence store.Fence)
		}{
			{"yield", func(l *Log, fence store.Fence) { h.commit(l, withEffect(l.Commit(fence), store.EffectYield, "")) }},
			{"release", func(l *Log, fence store.Fence) { h.check("release", h.store.Release(h.ctx, l.Run, fence)) }},
			{"item", func(l *Log, fence store.Fence) {
				h.park(l, fence, time.Time{})
				h.deliver(l.Run)
			}},
			{"due", func(l *Log, fence store.Fence) {
				h.park(l, fence, h.clock.Now())
				h.due(10)
			}},
			{"close session", func(*Log, store.Fence) { h.check("close session", h.store.CloseSession(h.ctx, 0, owner)) }},
		} {
			route := store.Route{Queue: "q", Workflow: c.what}
			l, fence := h.startOwnedAs(owner, route)
			h.poll(waiter, route) // takes the wake of the start
			p := h.wait(waitFor(waiter, route))
			c.by(l, fence)
			h.equal(c.what, h.woken(c.what, p).Claim, []int{0})
		}
	}},
	{"WaitLeavesWakesOfOtherRoutes", func(h *harness) {
		s := h.session()
		h.start()
		h.equal("woken for refunds", h.poll(s, refunds).Claim, []int(nil))
		h.equal("woken for none", h.poll(s).Claim, []int(nil))
		h.equal("woken for orders", h.poll(s, orders).Claim, []int{0})
	}},
	{"EachWakeGoesToOneWait", func(h *harness) {
		a, b := h.session(), h.session()
		first := h.wait(waitFor(a, orders))
		h.start()
		h.equal("first", h.woken("first wait", first).Claim, []int{0})
		h.equal("second", h.poll(b, orders).Claim, []int(nil))
	}},
	{"K2_AHintLeavesTheWakeToTheClaim", func(h *harness) {
		s, other := h.session(), h.session()
		hinted := waitFor(s, orders)
		hinted.Hinted = true
		claim := func(what string, s store.SessionID, hinted bool, most int) []event.RunID {
			h.Helper()
			got, err := h.store.Claim(h.ctx, store.Claim{Session: s, Token: h.ids.Token(), Routes: []store.Route{orders}, Max: most, Hinted: hinted})
			h.check(what, err)
			return runsOf(got.Runs)
		}
		p := h.wait(hinted)
		first := h.start()
		got := h.woken("wait", p)
		h.equal("told of a wake", slices.Concat(got.Claim, got.Hinted), []int{0})
		h.equal("claimed after it", claim("claim", s, len(got.Hinted) > 0, 10), []event.RunID{first.Run})
		h.equal("wakes", h.inspect().Wakes, map[store.Route]bool(nil))

		second := h.start()
		h.equal("a hinted claim takes the wake", claim("claim", s, true, 10), []event.RunID{second.Run})

		third := h.start()
		h.equal("a hinted claim of nothing", claim("claim", s, true, 0), []event.RunID(nil))
		h.equal("it leaves the wake to the other one", h.poll(other, orders).Claim, []int{0})
		all := claim("claim", s, true, 10) // the other session has taken the wake
		all = append(all, claim("claim", other, false, 10)...)
		h.equal("claimed of both", all, []event.RunID{third.Run})
	}},
	{"WaitTellsOfANewItemOnce", func(h *harness) {
		s := h.session()
		l, _ := h.startOwned(s)
		h.equal("before", h.poll(s).Unread, []event.RunID(nil))
		h.deliver(l.Run)
		h.deliver(l.Run)
		h.equal("told", h.woken("wait", h.wait(waitFor(s))).Unread, []event.RunID{l.Run})
		h.equal("told again", h.poll(s).Unread, []event.RunID(nil))
		h.deliver(l.Run)
		h.equal("told of the next item", h.poll(s).Unread, []event.RunID{l.Run})
	}},
	{"AnItemWakesABlockedWait", func(h *harness) {
		s := h.session()
		l, _ := h.startOwned(s)
		p := h.wait(waitFor(s))
		h.deliver(l.Run)
		h.equal("unread items", h.woken("wait", p).Unread, []event.RunID{l.Run})
	}},
	{"WaitTellsOnlyTheOwnerOfItems", func(h *harness) {
		s, other := h.session(), h.session()
		l, _ := h.startOwned(s)
		h.deliver(l.Run)
		h.equal("other", h.poll(other).Unread, []event.RunID(nil))
		h.equal("owner", h.poll(s).Unread, []event.RunID{l.Run})
	}},
	{"ItemsGoToTheNewOwnerOnceTheRunHasMoved", func(h *harness) {
		old := h.session()
		l, fence := h.startOwned(old)
		h.deliver(l.Run) // the old owner does not read its notifications
		h.check("release", h.store.Release(h.ctx, l.Run, fence))
		s := h.session()
		h.own(s, l)
		h.deliver(l.Run)
		h.equal("unread items", h.poll(s).Unread, []event.RunID{l.Run})
		h.equal("unread items of the old owner", h.heartbeat(old).Unread, []event.RunID(nil))
	}},
	{"WaitEndsAtItsTimeByTheClockOfTheStore", func(h *harness) {
		s := h.session()
		w := waitFor(s, orders)
		w.Until = h.clock.Now().Add(time.Hour)
		p := h.wait(w)
		h.check("wait for the alarm", h.clock.AwaitAlarm(h.ctx))
		h.clock.Advance(time.Hour - time.Millisecond)
		h.clock.Advance(time.Millisecond)
		h.equal("woken", h.woken("wait", p), store.Woken{Due: true})
	}},
	{"WaitWithATimeThatIsPastOnlyLooks", func(h *harness) {
		s := h.session()
		w := waitFor(s, orders)
		w.Until = h.clock.Now().Add(-time.Hour)
		h.equal("woken", h.woken("wait", h.wait(w)), store.Woken{Due: true})
		h.start()
		h.equal("woken", h.woken("wait", h.wait(w)), store.Woken{Claim: []int{0}, Due: true})
	}},
	{"K3_AnEarlierDueTimeEndsTheWait", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		w := waitFor(s)
		w.Until = h.clock.Now().Add(time.Hour)
		p := h.wait(w)
		h.park(l, fence, h.clock.Now().Add(time.Minute))
		h.equal("sooner", h.woken("wait", p).Sooner, []int{0})
	}},
	{"K3_AnEarlierDueTimeThatIsThereAlreadyEndsTheWait", func(h *harness) {
		s := h.session()
		h.delayed(time.Minute)
		w := waitFor(s)
		w.Until = h.clock.Now().Add(time.Hour)
		h.equal("sooner", h.woken("wait", h.wait(w)).Sooner, []int{0})
	}},
	{"WaitEndsWithItsContext", func(h *harness) {
		s := h.session()
		p := h.wait(waitFor(s, orders))
		p.cancel()
		_, err := p.result(h, "wait")
		h.is("wait", err, context.Canceled)
		ctx, cancel := context.WithCancel(h.ctx)
		cancel()
		_, err = h.store.Wait(ctx, waitFor(s, orders))
		h.is("wait with a context that has ended", err, context.Canceled)
	}},
	{"AWaitThatGaveUpTakesNoWake", func(h *harness) {
		s := h.session()
		for range 20 {
			p := h.wait(waitFor(s, orders))
			p.cancel()
			l := h.start()
			got, err := p.result(h, "wait")
			taken := err == nil && len(got.Claim) == 1
			if left := len(h.poll(s, orders).Claim) == 1; taken == left {
				h.Fatalf("wake of run %s: taken %v, left %v (%v)", l.Run, taken, left, err)
			}
			h.own(s, l)
			h.poll(s, orders)
		}
	}},
	{"WaitListensToSeveralSessions", func(h *harness) {
		a, b := h.session(), h.session()
		l, _ := h.startOwned(b)
		p := h.wait(store.Wait{Sessions: []store.WaitSession{{Session: a}, {Session: b}}})
		h.deliver(l.Run)
		h.equal("unread items", h.woken("wait", p).Unread, []event.RunID{l.Run})
	}},
}
