package runs

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// ownerAgainBehaviors test repeated creates with an owner, as a worker sends them if the first
// answer was lost.
var ownerAgainBehaviors = []behavior{
	{"C1_CreateWithAnOwnerSentAgainIsToldOfItsFence", func(h *harness) {
		s := h.Session()
		l, c := h.BearAs(s, h.WorkflowID("order"))
		mine := store.Created{Run: l.Run, New: true, Fence: c.Owner.Fence()}
		h.Unchanged("the same create", func() { h.Equal("answer", h.Create(c), mine) })
		h.Commit(l, l.Commit(c.Owner.Fence(), l.Work()...))
		h.Deliver(l.Run)
		h.Unchanged("the same create after a commit", func() {
			h.Equal("answer", h.Create(c), mine)
			for _, p := range []store.ActivePolicy{store.ActiveFail, store.ActiveCancel} {
				again := c
				again.Active, again.Finished, again.Delay = p, store.FinishedReject, time.Hour
				h.Equal("answer before anything else is asked", h.Create(again), mine)
			}
		})
		h.Commit(l, l.Commit(c.Owner.Fence(), l.Work()...))
	}},
	{"C1_CreateSentAgainIsToldOfNoFenceButItsOwn", func(h *harness) {
		s, other := h.Session(), h.Session()
		l, c := h.Bear(s)
		h.Unchanged("creates with other owners, or none", func() {
			again := l.CreateAgain()
			h.Equal("without an owner", h.Create(again), store.Created{Run: l.Run, New: true})
			for _, s := range []store.SessionID{s, other, "nobody"} {
				h.OwnedBy(s)(&again)
				h.Equal("with another token", h.Create(again), store.Created{Run: l.Run, New: true})
			}
			again.Owner = &store.Owner{Session: s}
			h.Equal("with no token", h.Create(again), store.Created{Run: l.Run, New: true})
		})
		h.Commit(l, l.Commit(c.Owner.Fence(), l.Work()...))
	}},
	{"C1_CreateWithAnOwnerSentAgainLaterIsToldOfNoFence", func(h *harness) {
		gone := func(what string, c store.Create) {
			h.Helper()
			h.Unchanged("the same create after "+what, func() {
				h.Equal("answer after "+what, h.Create(c), store.Created{Run: c.Run, New: true})
			})
		}
		s := h.Session()
		released, c := h.Bear(s)
		h.Check("release", h.Store.Release(h.Ctx, released.Run, c.Owner.Fence()))
		gone("a release", c)
		_, err := h.Store.ClaimRun(h.Ctx, 0, s, c.Owner.Token, released.Run) // claims the run with the same token but another epoch
		h.Check("claim run", err)
		gone("another claim", c)

		parked, c := h.Bear(s)
		h.Park(parked, c.Owner.Fence(), time.Time{})
		gone("a park", c)

		wid := h.WorkflowID("order")
		ended, c := h.BearAs(s, wid, func(c *store.Create) { c.Finished = store.FinishedReject })
		h.Finish(ended, c.Owner.Fence(), event.StatusCompleted)
		gone("the end", c)
		h.Check("delete", h.Delete(ended.Run))
		gone("the deletion", c)

		old, c := h.Bear(s)
		h.ContinueRun(old, c.Owner.Fence())
		gone("it continued", c)

		closed := h.Session()
		_, c = h.Bear(closed)
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, closed))
		gone("its session was closed", c)
		dead := h.Session()
		_, c = h.Bear(dead)
		h.RecoverDead(s) // s recovers the run; it also owns another one
		gone("its session was recovered", c)
	}},
	{"C1_AReadyRunIsNotOwnedByACreateSentAgain", func(h *harness) {
		l := h.Start()
		c := l.CreateAgain()
		h.OwnedBy(h.Session())(&c)
		h.Unchanged("the create", func() { h.Equal("answer", h.Create(c), store.Created{Run: l.Run, New: true}) })
	}},
}
