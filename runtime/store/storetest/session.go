package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

var refunds = store.Route{Queue: "slow", Workflow: "orders.refund"}

var sessionBehaviors = []behavior{
	{"OpenSessionAddsALease", func(h *harness) {
		s := h.session(orders)
		h.equal("leases", h.inspect().Leases, map[store.SessionID]store.Lease{
			s: {Session: s, Worker: "host/1", Fingerprint: "v1", Expires: h.clock.Now().Add(ttl), TTL: ttl},
		})
	}},
	{"OpenSessionSentAgainRenewsTheLease", func(h *harness) {
		o := store.Session{ID: h.ids.Session(), Worker: "host/1", TTL: ttl}
		h.check("open session", h.store.OpenSession(h.ctx, o))
		h.clock.Advance(time.Second)
		h.check("open session again", h.store.OpenSession(h.ctx, o))
		h.equal("expiry", h.inspect().Leases[o.ID].Expires, h.clock.Now().Add(ttl))
	}},
	{"W1_HeartbeatNeverCreatesALease", func(h *harness) {
		h.unchanged("a heartbeat of nobody", func() {
			_, err := h.store.Heartbeat(h.ctx, 0, "nobody")
			h.is("heartbeat", err, store.ErrExpired)
		})
	}},
	{"W1_HeartbeatOfAClosedSessionIsExpired", func(h *harness) {
		s := h.session()
		h.check("close session", h.store.CloseSession(h.ctx, 0, s))
		h.unchanged("a late heartbeat", func() {
			_, err := h.store.Heartbeat(h.ctx, 0, s)
			h.is("heartbeat", err, store.ErrExpired)
		})
	}},
	{"W1_HeartbeatOfARecoveredSessionIsExpired", func(h *harness) {
		dead := h.session()
		h.startOwned(dead)
		h.recoverDead(h.session())
		h.unchanged("a late heartbeat", func() {
			_, err := h.store.Heartbeat(h.ctx, 0, dead)
			h.is("heartbeat", err, store.ErrExpired)
		})
	}},
	{"HeartbeatRenewsTheLease", func(h *harness) {
		s := h.session()
		h.clock.Advance(10 * time.Second)
		h.heartbeat(s)
		h.equal("expiry", h.inspect().Leases[s].Expires, h.clock.Now().Add(ttl))
	}},
	{"HeartbeatRenewsALeaseThatIsPastButNotRecovered", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		h.clock.Advance(10 * ttl)
		h.equal("owned", h.heartbeat(s).Owned, 1)
		h.recoverDead(s)
		h.commit(l, l.Commit(fence, l.Work()...))
	}},
	{"W2_HeartbeatTellsHowManyRunsAreOwned", func(h *harness) {
		s := h.session()
		h.equal("owned", h.heartbeat(s).Owned, 0)
		l, fence := h.startOwned(s)
		h.startOwned(s)
		h.equal("owned", h.heartbeat(s).Owned, 2)
		h.finish(l, fence, event.StatusCompleted)
		h.equal("owned", h.heartbeat(s).Owned, 1)
	}},
	{"W2_HeartbeatNamesRunsWithUnreadItems", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		h.startOwned(s)
		h.equal("unread items", h.heartbeat(s).Unread, []event.RunID(nil))
		i := h.deliver(l.Run)
		h.equal("unread items", h.heartbeat(s).Unread, []event.RunID{l.Run})
		h.equal("unread items again", h.heartbeat(s).Unread, []event.RunID{l.Run})
		c := l.Commit(fence, l.Receive(i)...)
		c.Consume, c.ConsumeLast = 1, i.ID
		h.commit(l, c)
		h.equal("unread items after it was read", h.heartbeat(s).Unread, []event.RunID(nil))
	}},
	{"HeartbeatTellsTheNextDueTime", func(h *harness) {
		s := h.session()
		h.equal("next", h.heartbeat(s).Next, time.Time{})
		later, sooner := h.clock.Now().Add(2*time.Hour), h.clock.Now().Add(time.Hour)
		h.start(func(c *store.Create) { c.At = later })
		h.equal("next", h.heartbeat(s).Next, later)
		h.start(func(c *store.Create) { c.At = sooner })
		h.equal("next", h.heartbeat(s).Next, sooner)
	}},
	{"W2_ReconcileTellsTheOwnedRunsWithTheirFences", func(h *harness) {
		s := h.session()
		got, err := h.store.Reconcile(h.ctx, 0, s)
		h.check("reconcile", err)
		h.equal("owned by a new session", got, []store.Owned(nil))
		l, fence := h.startOwned(s)
		h.startOwned(h.session())
		got, err = h.store.Reconcile(h.ctx, 0, s)
		h.check("reconcile", err)
		h.equal("owned", got, []store.Owned{{Run: l.Run, Fence: fence}})
	}},
	{"ReconcileOfNobodyIsExpired", func(h *harness) {
		_, err := h.store.Reconcile(h.ctx, 0, "nobody")
		h.is("reconcile", err, store.ErrExpired)
	}},
	{"CloseSessionRemovesTheLease", func(h *harness) {
		s := h.session()
		h.check("close session", h.store.CloseSession(h.ctx, 0, s))
		h.equal("leases", h.inspect().Leases, map[store.SessionID]store.Lease(nil))
		h.check("close session again", h.store.CloseSession(h.ctx, 0, s))
	}},
	{"CloseSessionRecoversWhatItStillOwnsAtOnce", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		h.check("close session", h.store.CloseSession(h.ctx, 0, s))
		got := h.record(l.Run)
		h.equal("queue state", got.QueueState, store.StateReady)
		h.equal("recoveries", got.Recoveries, 1)
		h.equal("fence", got.Fence, store.Fence{Epoch: fence.Epoch + 1})
		h.equal("owner", got.Owner, store.SessionID(""))
		h.equal("wake", h.inspect().Wakes[orders], true)
		h.is("its late commit", h.try(l.Commit(fence, l.Work()...)).Err, store.ErrFenced)
	}},
}
