package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// ownerAgainBehaviors test the answers to a repeated create with an owner, whose first answer was
// lost.
var ownerAgainBehaviors = []behavior{
	{"C1_CreateWithAnOwnerSentAgainIsToldOfItsFence", func(h *harness) {
		s := h.session()
		l, c := h.bearAs(s, h.workflowID("order"))
		mine := store.Created{Run: l.Run, New: true, Fence: c.Owner.Fence()}
		h.unchanged("the same create", func() { h.equal("answer", h.create(c), mine) })
		h.commit(l, l.Commit(c.Owner.Fence(), l.Work()...))
		h.deliver(l.Run)
		h.unchanged("the same create after a commit", func() {
			h.equal("answer", h.create(c), mine)
			for _, p := range []store.ActivePolicy{store.ActiveFail, store.ActiveCancel} {
				again := c
				again.Active, again.Finished, again.Delay = p, store.FinishedReject, time.Hour
				h.equal("answer before anything else is asked", h.create(again), mine)
			}
		})
		h.commit(l, l.Commit(c.Owner.Fence(), l.Work()...))
	}},
	{"C1_CreateSentAgainIsToldOfNoFenceButItsOwn", func(h *harness) {
		s, other := h.session(), h.session()
		l, c := h.bear(s)
		h.unchanged("creates with other owners, or none", func() {
			again := l.createAgain()
			h.equal("without an owner", h.create(again), store.Created{Run: l.Run, New: true})
			for _, s := range []store.SessionID{s, other, "nobody"} {
				h.ownedBy(s)(&again)
				h.equal("with another token", h.create(again), store.Created{Run: l.Run, New: true})
			}
			again.Owner = &store.Owner{Session: s}
			h.equal("with no token", h.create(again), store.Created{Run: l.Run, New: true})
		})
		h.commit(l, l.Commit(c.Owner.Fence(), l.Work()...))
	}},
	{"C1_CreateWithAnOwnerSentAgainLaterIsToldOfNoFence", func(h *harness) {
		gone := func(what string, c store.Create) {
			h.Helper()
			h.unchanged("the same create after "+what, func() {
				h.equal("answer after "+what, h.create(c), store.Created{Run: c.Run, New: true})
			})
		}
		s := h.session()
		released, c := h.bear(s)
		h.check("release", h.store.Release(h.ctx, released.Run, c.Owner.Fence()))
		gone("a release", c)
		_, err := h.store.ClaimRun(h.ctx, 0, s, c.Owner.Token, released.Run) // the same token under another epoch
		h.check("claim run", err)
		gone("another claim", c)

		parked, c := h.bear(s)
		h.park(parked, c.Owner.Fence(), time.Time{})
		gone("a park", c)

		wid := h.workflowID("order")
		ended, c := h.bearAs(s, wid, func(c *store.Create) { c.Finished = store.FinishedReject })
		h.finish(ended, c.Owner.Fence(), event.StatusCompleted)
		gone("the end", c)
		h.check("delete", h.delete(ended.Run))
		gone("the deletion", c)

		old, c := h.bear(s)
		h.continueRun(old, c.Owner.Fence())
		gone("it continued", c)

		closed := h.session()
		_, c = h.bear(closed)
		h.check("close session", h.store.CloseSession(h.ctx, 0, closed))
		gone("its session was closed", c)
		dead := h.session()
		_, c = h.bear(dead)
		h.recoverDead(s) // s owns another run
		gone("its session was recovered", c)
	}},
	{"C1_AReadyRunIsNotOwnedByACreateSentAgain", func(h *harness) {
		l := h.start()
		c := l.createAgain()
		h.ownedBy(h.session())(&c)
		h.unchanged("the create", func() { h.equal("answer", h.create(c), store.Created{Run: l.Run, New: true}) })
	}},
}
