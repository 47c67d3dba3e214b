package runs

import (
	"context"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var waitBehaviors = []behavior{
	{"K2_WaitTakesTheWakeOfAReadyRun", func(h *harness) {
		s := h.Session()
		h.Equal("woken by nothing", h.Poll(s, suite.Orders), store.Woken{Due: true})
		h.Start()
		got := h.Woken("wait", h.Wait(suite.WaitFor(s, suite.Orders)))
		h.Equal("claim", got.Claim, []int{0})
		h.Equal("wakes", h.Inspect().Wakes, map[store.Route]bool(nil))
		h.Equal("woken again", h.Poll(s, suite.Orders), store.Woken{Due: true})
	}},
	{"K2_OneWakePerRoute", func(h *harness) {
		s := h.Session()
		h.Start()
		h.Start()
		h.StartAs(suite.Refunds, "")
		h.Equal("wakes", h.Inspect().Wakes, map[store.Route]bool{suite.Orders: true, suite.Refunds: true})
		h.Equal("first", h.Poll(s, suite.Orders).Claim, []int{0})
		h.Equal("second", h.Poll(s, suite.Orders).Claim, []int(nil))
		h.Equal("other route", h.Poll(s, suite.Refunds).Claim, []int{0})
	}},
	{"K2_AStartWakesABlockedWait", func(h *harness) {
		s := h.Session()
		p := h.Wait(suite.WaitFor(s, suite.Orders))
		h.Start()
		h.Equal("claim", h.Woken("wait", p).Claim, []int{0})
	}},
	{"K2_EverythingThatMakesReadyWakesABlockedWait", func(h *harness) {
		owner, waiter := h.Session(), h.Session()
		for _, c := range []struct {
			what string
			by   func(l *suite.Log, fence store.Fence)
		}{
			{"yield", func(l *suite.Log, fence store.Fence) {
				h.Commit(l, suite.WithEffect(l.Commit(fence), store.EffectYield, ""))
			}},
			{"release", func(l *suite.Log, fence store.Fence) { h.Check("release", h.Store.Release(h.Ctx, l.Run, fence)) }},
			{"item", func(l *suite.Log, fence store.Fence) {
				h.Park(l, fence, time.Time{})
				h.Deliver(l.Run)
			}},
			{"due", func(l *suite.Log, fence store.Fence) {
				h.Park(l, fence, h.Clock.Now())
				h.Due(10)
			}},
			{"close session", func(*suite.Log, store.Fence) { h.Check("close session", h.Store.CloseSession(h.Ctx, 0, owner)) }},
		} {
			route := store.Route{Queue: "q", Workflow: c.what}
			l, fence := h.StartOwnedAs(owner, route)
			h.Poll(waiter, route) // takes the wake that the start has set
			p := h.Wait(suite.WaitFor(waiter, route))
			c.by(l, fence)
			h.Equal(c.what, h.Woken(c.what, p).Claim, []int{0})
		}
	}},
	{"WaitLeavesWakesOfOtherRoutes", func(h *harness) {
		s := h.Session()
		h.Start()
		h.Equal("woken for refunds", h.Poll(s, suite.Refunds).Claim, []int(nil))
		h.Equal("woken for none", h.Poll(s).Claim, []int(nil))
		h.Equal("woken for orders", h.Poll(s, suite.Orders).Claim, []int{0})
	}},
	{"EachWakeGoesToOneWait", func(h *harness) {
		a, b := h.Session(), h.Session()
		first := h.Wait(suite.WaitFor(a, suite.Orders))
		h.Start()
		h.Equal("first", h.Woken("first wait", first).Claim, []int{0})
		h.Equal("second", h.Poll(b, suite.Orders).Claim, []int(nil))
	}},
	{"K2_AHintLeavesTheWakeToTheClaim", func(h *harness) {
		s, other := h.Session(), h.Session()
		hinted := suite.WaitFor(s, suite.Orders)
		hinted.Hinted = true
		claim := func(what string, s store.SessionID, hinted bool, most int) []event.RunID {
			h.Helper()
			got, err := h.Store.Claim(h.Ctx, store.Claim{Session: s, Token: h.IDs.Token(), Routes: []store.Route{suite.Orders}, Max: most, Hinted: hinted})
			h.Check(what, err)
			return suite.RunsOf(got.Runs)
		}
		p := h.Wait(hinted)
		first := h.Start()
		got := h.Woken("wait", p)
		h.Equal("told of a wake", slices.Concat(got.Claim, got.Hinted), []int{0})
		h.Equal("claimed after it", claim("claim", s, len(got.Hinted) > 0, 10), []event.RunID{first.Run})
		h.Equal("wakes", h.Inspect().Wakes, map[store.Route]bool(nil))

		second := h.Start()
		h.Equal("a hinted claim takes the wake", claim("claim", s, true, 10), []event.RunID{second.Run})

		third := h.Start()
		h.Equal("a hinted claim of nothing", claim("claim", s, true, 0), []event.RunID(nil))
		h.Equal("it leaves the wake to the other one", h.Poll(other, suite.Orders).Claim, []int{0})
		all := claim("claim", s, true, 10) // the wake was taken by the other session
		all = append(all, claim("claim", other, false, 10)...)
		h.Equal("claimed of both", all, []event.RunID{third.Run})
	}},
	{"WaitTellsOfANewItemOnce", func(h *harness) {
		s := h.Session()
		l, _ := h.StartOwned(s)
		h.Equal("before", h.Poll(s).Unread, []event.RunID(nil))
		h.Deliver(l.Run)
		h.Deliver(l.Run)
		h.Equal("told", h.Woken("wait", h.Wait(suite.WaitFor(s))).Unread, []event.RunID{l.Run})
		h.Equal("told again", h.Poll(s).Unread, []event.RunID(nil))
		h.Deliver(l.Run)
		h.Equal("told of the next item", h.Poll(s).Unread, []event.RunID{l.Run})
	}},
	{"AnItemWakesABlockedWait", func(h *harness) {
		s := h.Session()
		l, _ := h.StartOwned(s)
		p := h.Wait(suite.WaitFor(s))
		h.Deliver(l.Run)
		h.Equal("unread items", h.Woken("wait", p).Unread, []event.RunID{l.Run})
	}},
	{"WaitTellsOnlyTheOwnerOfItems", func(h *harness) {
		s, other := h.Session(), h.Session()
		l, _ := h.StartOwned(s)
		h.Deliver(l.Run)
		h.Equal("other", h.Poll(other).Unread, []event.RunID(nil))
		h.Equal("owner", h.Poll(s).Unread, []event.RunID{l.Run})
	}},
	{"ItemsGoToTheNewOwnerOnceTheRunHasMoved", func(h *harness) {
		old := h.Session()
		l, fence := h.StartOwned(old)
		h.Deliver(l.Run) // the old owner does not fetch its notifications
		h.Check("release", h.Store.Release(h.Ctx, l.Run, fence))
		s := h.Session()
		h.Own(s, l)
		h.Deliver(l.Run)
		h.Equal("unread items", h.Poll(s).Unread, []event.RunID{l.Run})
		h.Equal("unread items of the old owner", h.Heartbeat(old).Unread, []event.RunID(nil))
	}},
	{"WaitEndsAtItsTimeByTheClockOfTheStore", func(h *harness) {
		s := h.Session()
		w := suite.WaitFor(s, suite.Orders)
		w.Until = h.Clock.Now().Add(time.Hour)
		p := h.Wait(w)
		h.Check("wait for the alarm", h.Clock.AwaitAlarm(h.Ctx))
		h.Clock.Advance(time.Hour - time.Millisecond)
		h.Clock.Advance(time.Millisecond)
		h.Equal("woken", h.Woken("wait", p), store.Woken{Due: true})
	}},
	{"WaitWithATimeThatIsPastOnlyLooks", func(h *harness) {
		s := h.Session()
		w := suite.WaitFor(s, suite.Orders)
		w.Until = h.Clock.Now().Add(-time.Hour)
		h.Equal("woken", h.Woken("wait", h.Wait(w)), store.Woken{Due: true})
		h.Start()
		h.Equal("woken", h.Woken("wait", h.Wait(w)), store.Woken{Claim: []int{0}, Due: true})
	}},
	{"K3_AnEarlierDueTimeEndsTheWait", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		w := suite.WaitFor(s)
		w.Until = h.Clock.Now().Add(time.Hour)
		p := h.Wait(w)
		h.Park(l, fence, h.Clock.Now().Add(time.Minute))
		h.Equal("sooner", h.Woken("wait", p).Sooner, []int{0})
	}},
	{"K3_AnEarlierDueTimeThatIsThereAlreadyEndsTheWait", func(h *harness) {
		s := h.Session()
		h.delayed(time.Minute)
		w := suite.WaitFor(s)
		w.Until = h.Clock.Now().Add(time.Hour)
		h.Equal("sooner", h.Woken("wait", h.Wait(w)).Sooner, []int{0})
	}},
	{"WaitEndsWithItsContext", func(h *harness) {
		s := h.Session()
		p := h.Wait(suite.WaitFor(s, suite.Orders))
		p.Cancel()
		_, err := p.Result(h.Harness, "wait")
		h.Is("wait", err, context.Canceled)
		ctx, cancel := context.WithCancel(h.Ctx)
		cancel()
		_, err = h.Store.Wait(ctx, suite.WaitFor(s, suite.Orders))
		h.Is("wait with a context that has ended", err, context.Canceled)
	}},
	{"AWaitThatGaveUpTakesNoWake", func(h *harness) {
		s := h.Session()
		for range 20 {
			p := h.Wait(suite.WaitFor(s, suite.Orders))
			p.Cancel()
			l := h.Start()
			got, err := p.Result(h.Harness, "wait")
			taken := err == nil && len(got.Claim) == 1
			if left := len(h.Poll(s, suite.Orders).Claim) == 1; taken == left {
				h.Fatalf("wake of run %s: taken %v, left %v (%v)", l.Run, taken, left, err)
			}
			h.Own(s, l)
			h.Poll(s, suite.Orders)
		}
	}},
	{"WaitListensToSeveralSessions", func(h *harness) {
		a, b := h.Session(), h.Session()
		l, _ := h.StartOwned(b)
		p := h.Wait(store.Wait{Sessions: []store.WaitSession{{Session: a}, {Session: b}}})
		h.Deliver(l.Run)
		h.Equal("unread items", h.Woken("wait", p).Unread, []event.RunID{l.Run})
	}},
}
