package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

func canAudit(s store.Store) bool {
	_, ok := store.As[store.Auditor](s)
	return ok
}

func (h *harness) audit(run event.RunID) []store.AuditEntry {
	h.Helper()
	a, _ := store.As[store.Auditor](h.store)
	got, err := a.Audit(h.ctx, run)
	h.check("audit", err)
	return got
}

var auditBehaviors = []behavior{
	{"AuditTellsOfARecovery", func(h *harness) {
		dead, alive := h.session(), h.session()
		l, fence := h.startOwned(dead)
		other := h.start()
		c := l.Commit(fence, l.Work()...)
		c.Status = event.StatusRunning
		h.commit(l, c)
		h.recoverDead(alive)
		h.equal("audit", h.audit(l.Run), []store.AuditEntry{{
			Time: h.clock.Now(), Run: l.Run, Reason: store.ReasonExpiredClaim, By: alive, Owner: dead,
			QueueState: store.StateOwned, Status: event.StatusRunning, Epoch: fence.Epoch,
		}})
		h.equal("audit of another run", h.audit(other.Run), []store.AuditEntry(nil))
	}},
	{"AuditTellsOfASessionThatLeftItsRuns", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		h.check("close session", h.store.CloseSession(h.ctx, 0, s))
		h.equal("audit", h.audit(l.Run), []store.AuditEntry{{
			Time: h.clock.Now(), Run: l.Run, Reason: store.ReasonSessionClosed, By: s, Owner: s,
			QueueState: store.StateOwned, Status: event.StatusPending, Epoch: fence.Epoch,
		}})
	}},
	{"AuditIsOldestFirst", func(h *harness) {
		l := h.start()
		var want []time.Time
		for range 3 {
			s := h.session()
			h.own(s, l)
			h.clock.Advance(time.Second)
			h.check("close session", h.store.CloseSession(h.ctx, 0, s))
			want = append(want, h.clock.Now())
		}
		var got []time.Time
		for _, e := range h.audit(l.Run) {
			got = append(got, e.Time)
		}
		h.equal("times", got, want)
	}},
	{"ReleaseAndYieldAreNoInterventions", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		h.commit(l, withEffect(l.Commit(fence), store.EffectYield, ""))
		h.check("release", h.store.Release(h.ctx, l.Run, h.own(s, l)))
		h.equal("audit", h.audit(l.Run), []store.AuditEntry(nil))
	}},
	{"AuditOfAnUnknownRunIsEmpty", func(h *harness) {
		h.equal("audit", h.audit(h.runID()), []store.AuditEntry(nil))
	}},
}
