package operators

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var auditBehaviors = []behavior{
	{"AuditTellsOfARecovery", func(h *harness) {
		dead, alive := h.Session(), h.Session()
		l, fence := h.StartOwned(dead)
		other := h.Start()
		c := l.Commit(fence, l.Work()...)
		c.Status = event.StatusRunning
		h.Commit(l, c)
		h.RecoverDead(alive)
		h.Equal("audit", h.Audit(l.Run), []store.AuditEntry{{
			Time: h.Clock.Now(), Run: l.Run, Reason: store.ReasonExpiredClaim, By: alive, Owner: dead,
			QueueState: store.StateOwned, Status: event.StatusRunning, Epoch: fence.Epoch,
		}})
		h.Equal("audit of another run", h.Audit(other.Run), []store.AuditEntry(nil))
	}},
	{"AuditTellsOfASessionThatLeftItsRuns", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, s))
		h.Equal("audit", h.Audit(l.Run), []store.AuditEntry{{
			Time: h.Clock.Now(), Run: l.Run, Reason: store.ReasonSessionClosed, By: s, Owner: s,
			QueueState: store.StateOwned, Status: event.StatusPending, Epoch: fence.Epoch,
		}})
	}},
	{"AuditIsOldestFirst", func(h *harness) {
		l := h.Start()
		var want []time.Time
		for range 3 {
			s := h.Session()
			h.Own(s, l)
			h.Clock.Advance(time.Second)
			h.Check("close session", h.Store.CloseSession(h.Ctx, 0, s))
			want = append(want, h.Clock.Now())
		}
		var got []time.Time
		for _, e := range h.Audit(l.Run) {
			got = append(got, e.Time)
		}
		h.Equal("times", got, want)
	}},
	{"ReleaseAndYieldAreNoInterventions", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		h.Commit(l, suite.WithEffect(l.Commit(fence), store.EffectYield, ""))
		h.Check("release", h.Store.Release(h.Ctx, l.Run, h.Own(s, l)))
		h.Equal("audit", h.Audit(l.Run), []store.AuditEntry(nil))
	}},
	{"AuditOfAnUnknownRunIsEmpty", func(h *harness) {
		h.Equal("audit", h.Audit(h.RunID()), []store.AuditEntry(nil))
	}},
}
