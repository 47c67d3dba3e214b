package limits

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// nestedBehaviors test nested runs that become claimable without an event that admits their queue.
// The store must recheck their queues after some time.
var nestedBehaviors = []behavior{
	{"L6_ANestedRunIsLookedAtAgainWhenOtherRoomIsTaken", func(h *harness) {
		h.becomesFree(func(s store.SessionID) { h.one(s, h.Start(using("a"), nested)) })
	}},
	{"L6_ANestedRunIsLookedAtAgainAndAgain", func(h *harness) {
		h.becomesFree(func(s store.SessionID) {
			for range 3 { // the earlier run waits for b alone, so the rechecks admit nothing
				h.Clock.Advance(suite.AdmitTime)
				h.Heartbeat(s)
				h.nothing("nested, in vain", s)
			}
			h.one(s, h.Start(using("a"), nested))
		})
	}},
	{"L6_ANestedRunIsLookedAtAgainWhenOtherRoomIsTakenAway", func(h *harness) {
		h.becomesFree(func(store.SessionID) {
			h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "a"}, Config: store.LimitConfig{AtOnce: 1, Paused: true}})
		})
	}},
	{"L6_ANestedRunThatHadNoRoomEitherIsLookedAtAgain", func(h *harness) {
		h.hadNoneFreeEither(1, func(_ store.SessionID, nested []*suite.Log) *suite.Log { return nested[0] })
	}},
	{"L6_ANestedRunIsLookedAtAgainOnceTheOneBeforeItHasLeftTheLine", func(h *harness) {
		h.hadNoneFreeEither(2, func(s store.SessionID, nested []*suite.Log) *suite.Log {
			_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: nested[0].Run, Item: h.Item(), Urgent: true})
			h.Check("cancel", err)
			h.one(s, nested[0])
			return nested[1]
		})
	}},
}

// becomesFree makes a nested run of limit b wait behind a run that waits for b alone. Then fill
// must take the capacity of limit a, so that the earlier run also waits for a, without an event at
// b. The test fails unless the nested run becomes claimable.
func (h *harness) becomesFree(fill func(s store.SessionID)) {
	h.Helper()
	h.Limit("a", 1)
	h.Limit("b", 2)
	s := h.Session()
	h.one(s, h.Start(using("b"), whole))
	both := h.Start(func(c *store.Create) {
		c.Uses = []store.Use{{LimitID: store.LimitID{Name: "a"}, Weight: 1}, {LimitID: store.LimitID{Name: "b"}, Weight: 2}}
	})
	h.nothing("while b is held", s)
	below := h.Start(using("b"), nested)
	h.nothing("nested, while the one before it waits for b alone", s)
	fill(s)
	h.onceLookedAtAgain(s, both, below)
}

// hadNoneFreeEither makes n nested runs of limit b wait behind two runs: the first waits for a and
// for more of b, the second waits for b and c. When b has capacity for one nested run, no nested
// run may be claimed, because the first run waits for b alone. Then the first run also waits for a.
// The test fails unless the nested run that goes returns becomes claimable.
func (h *harness) hadNoneFreeEither(n int, goes func(s store.SessionID, nested []*suite.Log) *suite.Log) {
	h.Helper()
	h.Limit("a", 1)
	h.Limit("b", 2)
	s := h.Session()
	h.Limit("c", 1)
	h.one(s, h.Start(using("b"), whole))
	h.one(s, h.Start(using("c")))
	holder := h.Start(using("b"))
	fence := h.one(s, holder)
	both := h.Start(func(c *store.Create) {
		c.Uses = []store.Use{{LimitID: store.LimitID{Name: "a"}, Weight: 1}, {LimitID: store.LimitID{Name: "b"}, Weight: 2}}
	})
	h.Start(func(c *store.Create) {
		c.Uses = []store.Use{{LimitID: store.LimitID{Name: "b"}, Weight: 2}, {LimitID: store.LimitID{Name: "c"}, Weight: 1}}
	})
	below := h.starts(n, using("b"), nested)
	h.nothing("while all of b is held", s)
	h.Finish(holder, fence, event.StatusCompleted)
	h.nothing("nested, while the one before it waits for b alone", s)
	next := goes(s, below)
	h.one(s, h.Start(using("a"), nested))
	h.onceLookedAtAgain(s, both, next)
}

// onceLookedAtAgain fails the test unless the nested run below can be claimed after
// suite.AdmitTime, while the earlier run both still waits.
func (h *harness) onceLookedAtAgain(s store.SessionID, both, below *suite.Log) {
	h.Helper()
	for _, f := range h.Findings(h.Inspect()) {
		h.Fatalf("fsck: %v", f)
	}
	h.Clock.Advance(suite.AdmitTime)
	h.one(s, below)
	h.State(both.Run, store.StateReady)
}
