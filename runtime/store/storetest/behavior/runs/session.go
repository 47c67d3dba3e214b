package runs

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var sessionBehaviors = []behavior{
	{"OpenSessionAddsALease", func(h *harness) {
		s := h.Session(suite.Orders)
		h.Equal("leases", h.Inspect().Leases, map[store.SessionID]store.Lease{
			s: {Session: s, Worker: "host/1", Fingerprint: "v1", Expires: h.Clock.Now().Add(suite.TTL), TTL: suite.TTL},
		})
	}},
	{"OpenSessionSentAgainRenewsTheLease", func(h *harness) {
		o := store.Session{ID: h.IDs.Session(), Worker: "host/1", TTL: suite.TTL}
		h.Check("open session", h.Store.OpenSession(h.Ctx, o))
		h.Clock.Advance(time.Second)
		h.Check("open session again", h.Store.OpenSession(h.Ctx, o))
		h.Equal("expiry", h.Inspect().Leases[o.ID].Expires, h.Clock.Now().Add(suite.TTL))
	}},
	{"W1_HeartbeatNeverCreatesALease", func(h *harness) {
		h.Unchanged("a heartbeat of nobody", func() {
			_, err := h.Store.Heartbeat(h.Ctx, 0, "nobody")
			h.Is("heartbeat", err, store.ErrExpired)
		})
	}},
	{"W1_HeartbeatOfAClosedSessionIsExpired", func(h *harness) {
		s := h.Session()
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, s))
		h.Unchanged("a late heartbeat", func() {
			_, err := h.Store.Heartbeat(h.Ctx, 0, s)
			h.Is("heartbeat", err, store.ErrExpired)
		})
	}},
	{"W1_HeartbeatOfARecoveredSessionIsExpired", func(h *harness) {
		dead := h.Session()
		h.StartOwned(dead)
		h.RecoverDead(h.Session())
		h.Unchanged("a late heartbeat", func() {
			_, err := h.Store.Heartbeat(h.Ctx, 0, dead)
			h.Is("heartbeat", err, store.ErrExpired)
		})
	}},
	{"HeartbeatRenewsTheLease", func(h *harness) {
		s := h.Session()
		h.Clock.Advance(10 * time.Second)
		h.Heartbeat(s)
		h.Equal("expiry", h.Inspect().Leases[s].Expires, h.Clock.Now().Add(suite.TTL))
	}},
	{"HeartbeatRenewsALeaseThatIsPastButNotRecovered", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		h.Clock.Advance(10 * suite.TTL)
		h.Equal("owned", h.Heartbeat(s).Owned, 1)
		h.RecoverDead(s)
		h.Commit(l, l.Commit(fence, l.Work()...))
	}},
	{"W2_HeartbeatTellsHowManyRunsAreOwned", func(h *harness) {
		s := h.Session()
		h.Equal("owned", h.Heartbeat(s).Owned, 0)
		l, fence := h.StartOwned(s)
		h.StartOwned(s)
		h.Equal("owned", h.Heartbeat(s).Owned, 2)
		h.Finish(l, fence, event.StatusCompleted)
		h.Equal("owned", h.Heartbeat(s).Owned, 1)
	}},
	{"W2_HeartbeatNamesRunsWithUnreadItems", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		h.StartOwned(s)
		h.Equal("unread items", h.Heartbeat(s).Unread, []event.RunID(nil))
		i := h.Deliver(l.Run)
		h.Equal("unread items", h.Heartbeat(s).Unread, []event.RunID{l.Run})
		h.Equal("unread items again", h.Heartbeat(s).Unread, []event.RunID{l.Run})
		c := l.Commit(fence, l.Receive(i)...)
		c.Consume, c.ConsumeLast = 1, i.ID
		h.Commit(l, c)
		h.Equal("unread items after it was read", h.Heartbeat(s).Unread, []event.RunID(nil))
	}},
	{"HeartbeatTellsTheNextDueTime", func(h *harness) {
		s := h.Session()
		h.Equal("next", h.Heartbeat(s).Next, time.Time{})
		later, sooner := h.Clock.Now().Add(2*time.Hour), h.Clock.Now().Add(time.Hour)
		h.Start(func(c *store.Create) { c.At = later })
		h.Equal("next", h.Heartbeat(s).Next, later)
		h.Start(func(c *store.Create) { c.At = sooner })
		h.Equal("next", h.Heartbeat(s).Next, sooner)
	}},
	{"W2_ReconcileTellsTheOwnedRunsWithTheirFences", func(h *harness) {
		s := h.Session()
		got, err := h.Store.Reconcile(h.Ctx, 0, s)
		h.Check("reconcile", err)
		h.Equal("owned by a new session", got, []store.Owned(nil))
		l, fence := h.StartOwned(s)
		h.StartOwned(h.Session())
		got, err = h.Store.Reconcile(h.Ctx, 0, s)
		h.Check("reconcile", err)
		h.Equal("owned", got, []store.Owned{{Run: l.Run, Fence: fence}})
	}},
	{"ReconcileOfNobodyIsExpired", func(h *harness) {
		_, err := h.Store.Reconcile(h.Ctx, 0, "nobody")
		h.Is("reconcile", err, store.ErrExpired)
	}},
	{"CloseSessionRemovesTheLease", func(h *harness) {
		s := h.Session()
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, s))
		h.Equal("leases", h.Inspect().Leases, map[store.SessionID]store.Lease(nil))
		h.Check("close session again", h.Store.CloseSession(h.Ctx, 0, s))
	}},
	{"CloseSessionRecoversWhatItStillOwnsAtOnce", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, s))
		got := h.Record(l.Run)
		h.Equal("queue state", got.QueueState, store.StateReady)
		h.Equal("recoveries", got.Recoveries, 1)
		h.Equal("fence", got.Fence, store.Fence{Epoch: fence.Epoch + 1})
		h.Equal("owner", got.Owner, store.SessionID(""))
		h.Equal("wake", h.Inspect().Wakes[suite.Orders], true)
		h.Is("its late commit", h.Try(l.Commit(fence, l.Work()...)).Err, store.ErrFenced)
	}},
}
