package limits

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// seize seizes a run for a session. It skips the test if the store does not implement store.Seizer.
func (h *harness) seize(s store.SessionID, l *suite.Log, owned bool) (store.ClaimedRun, error) {
	h.Helper()
	seizer, ok := store.As[store.Seizer](h.Store)
	if !ok {
		h.T.Skipf("%T is no store.Seizer", h.Store)
	}
	got, err := seizer.Seize(h.Ctx, 0, s, h.IDs.Token(), l.Run, owned)
	if err == nil {
		got = h.Handed(got)
		h.State(l.Run, store.StateOwned)
	}
	return got, err
}

// seized seizes a run and returns its fence. It fails the test if the store refuses.
func (h *harness) seized(s store.SessionID, l *suite.Log, owned bool) store.Fence {
	h.Helper()
	got, err := h.seize(s, l, owned)
	h.Check("seize", err)
	h.Equal("seized", got.Run, l.Run)
	return got.Fence
}

// aside parks a run that has begun no step. unused determines what happens to the permits of the
// run.
func (h *harness) aside(l *suite.Log, fence store.Fence, unused store.Unused) {
	h.Helper()
	c := suite.WithEffect(l.Commit(fence, l.Work()...), store.EffectPark, event.StatusPaused)
	c.Unused = unused
	h.Commit(l, c)
}

var seizeBehaviors = []behavior{
	{"L2_ABlockedOrParkedRunIsGivenByNameIfItsPermitsAreFree", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		blocked := h.Start(using("gpu"))
		h.Block(blocked, h.one(s, blocked))
		parked := h.Start(using("gpu"))
		h.Park(parked, h.one(s, parked), time.Time{})
		refused := func(when string) {
			h.Helper()
			for _, l := range []*suite.Log{blocked, parked} {
				was := h.Record(l.Run)
				h.Is("claim by name while "+when, h.ClaimRun(s, l), store.ErrNotClaimable)
				h.Equal("run after it", h.Record(l.Run), was)
			}
		}
		holder, waits := h.Start(using("gpu")), h.Start(using("gpu"))
		fence := h.one(s, holder)
		refused("another run holds the permit")
		h.nothing("while it is held", s)
		h.Counts("gpu", 1, 1)
		h.Finish(holder, fence, event.StatusCompleted)
		refused("another run waits for the permit")
		h.Finish(waits, h.one(s, waits), event.StatusCompleted)
		for _, l := range []*suite.Log{blocked, parked} {
			got := h.named(s, l)
			h.Equal("called off", got.LeftQueue, false)
			h.Counts("gpu", 1, 0)
			h.Finish(l, got.Fence, event.StatusCompleted)
			h.Counts("gpu", 0, 0)
		}
	}},
	{"L9_ABlockedRunThatIsTooHeavyIsGivenByNameWithoutPermits", func(h *harness) {
		h.Limit("gpu", 2)
		s := h.Session()
		l := h.Start(weighing(2))
		h.Block(l, h.one(s, l))
		h.Limit("gpu", 1)
		got := h.named(s, l)
		h.Equal("called off", got.LeftQueue, true)
		h.Counts("gpu", 0, 0)
		h.Finish(l, got.Fence, event.StatusFailed)
		h.Counts("gpu", 0, 0)
	}},
	{"Unused_PermitsAndRateOfARunThatHasBegunNothingAreGivenBack", func(h *harness) {
		h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "crm"}, Config: store.LimitConfig{AtOnce: 1, Rate: 1, Burst: 1, Per: time.Hour}})
		s := h.Session()
		for _, kind := range []func(*store.Create){using("crm"), func(c *store.Create) { using("crm")(c); c.Whole = true }} {
			l := h.Start(kind)
			h.aside(l, h.one(s, l), store.UnusedBack)
			h.Counts("crm", 0, 0)
			h.State(l.Run, store.StateParked)
		}
		h.one(s, h.Start(using("crm")))
		h.Start(using("crm"))
		h.nothing("by a rate that one run has taken", s)
	}},
	{"Unused_ARunThatIsPausedKeepsItsPlace", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		first := h.Start(using("gpu"), whole)
		fence := h.one(s, first)
		second := h.Start(using("gpu"))
		h.aside(first, fence, store.UnusedInQueue)
		h.Counts("gpu", 0, 1)
		h.Deliver(first.Run)
		h.one(s, first)
		h.nothing("while it has the permit", s)
		h.State(second.Run, store.StateReady)
	}},
	{"Unused_ARateThatIsHeldBackIsNotGivenBack", func(h *harness) {
		h.SetLimits(store.SetLimit{LimitID: store.LimitID{Name: "crm"}, Config: store.LimitConfig{Rate: 2, Burst: 2, Per: time.Second}})
		s := h.Session()
		l, busy := h.Start(using("crm")), h.Start(using("crm"))
		fence, other := h.one(s, l), h.one(s, busy)
		c := suite.WithEffect(busy.Commit(other, busy.End(event.StatusCompleted)...), store.EffectFinish, event.StatusCompleted)
		c.HoldBack = time.Minute
		h.Commit(busy, c)
		h.aside(l, fence, store.UnusedBack)
		next := h.Start(using("crm"))
		h.Clock.Advance(time.Minute - time.Millisecond)
		h.Heartbeat(s)
		h.nothing("by a rate that is held back", s)
		h.Clock.Advance(time.Millisecond)
		h.one(s, next)
	}},
	{"Seize_TakesARunOutOfItsLineForPermitsWhereItKeepsItsPlace", func(h *harness) {
		h.Limit("gpu", 1)
		s := h.Session()
		holder, first, second := h.Start(using("gpu")), h.Start(using("gpu")), h.Start(using("gpu"))
		fence := h.one(s, holder)
		paused := h.seized(s, first, false)
		h.Counts("gpu", 1, 1)
		h.aside(first, paused, store.UnusedInQueue)
		h.Counts("gpu", 1, 1)
		h.Finish(holder, fence, event.StatusCompleted)
		fence = h.one(s, second)
		third := h.Start(using("gpu"))
		h.Deliver(first.Run)
		h.Finish(second, fence, event.StatusCompleted)
		h.one(s, first)
		h.State(third.Run, store.StateReady)
		h.Counts("gpu", 1, 1)
	}},
	{"Seize_WhatADeadSessionHadSeizedComesBackToItsPlace", func(h *harness) {
		h.Limit("gpu", 1)
		s, dead := h.Session(), h.Session()
		holder, first := h.Start(using("gpu")), h.Start(using("gpu"))
		fence := h.one(s, holder)
		second := h.Start(using("gpu"))
		h.seized(dead, first, false)
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, dead))
		h.Counts("gpu", 1, 2)
		h.Finish(holder, fence, event.StatusCompleted)
		h.one(s, first)
		h.State(second.Run, store.StateReady)
	}},
	{"Seize_TakesARunThatIsQueuedAfterAnother", func(h *harness) {
		wid, s := h.WorkflowID("order"), h.Session()
		queued := func(c *store.Create) { c.Active, c.Cancel = store.ActiveQueue, h.Item() }
		first, second, third := h.StartAs(suite.Orders, wid), h.StartAs(suite.Orders, wid, queued), h.StartAs(suite.Orders, wid, queued)
		h.Finish(second, h.seized(s, second, false), event.StatusCanceled)
		h.State(second.Run, store.StateEnded)
		h.State(third.Run, store.StateQueued)
		again := h.NewLog(suite.Orders, wid).Create()
		again.Active = store.ActiveFail
		active := suite.As[*store.ActiveError](h.Harness, "start", h.Create(again).Err)
		h.Equal("active", active.Run, first.Run)
		h.Finish(first, h.Own(s, first), event.StatusCompleted)
		h.Finish(third, h.Own(s, third), event.StatusCompleted)
	}},
	{"Seize_AQueuedRunOfADeadSessionIsReadyAndNotActive", func(h *harness) {
		wid, s, dead := h.WorkflowID("order"), h.Session(), h.Session()
		queued := func(c *store.Create) { c.Active, c.Cancel = store.ActiveQueue, h.Item() }
		first, second, third := h.StartAs(suite.Orders, wid), h.StartAs(suite.Orders, wid, queued), h.StartAs(suite.Orders, wid, queued)
		fence := h.one(s, first)
		h.seized(dead, second, false)
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, dead))
		h.Finish(second, h.Own(s, second), event.StatusCanceled)
		h.State(third.Run, store.StateQueued)
		h.Finish(first, fence, event.StatusCompleted)
		h.Finish(third, h.Own(s, third), event.StatusCompleted)
	}},
	{"Seize_FencesTheOwner", func(h *harness) {
		h.Limit("gpu", 1)
		s, other := h.Session(), h.Session()
		l := h.Start(using("gpu"))
		fence := h.one(s, l)
		_, err := h.seize(other, l, false)
		h.Is("seize without a claim of what others own", err, store.ErrOwned)
		taken := h.seized(other, l, true)
		h.Counts("gpu", 0, 0)
		h.Unchanged("a late commit of the owner", func() {
			h.Is("commit", h.Try(suite.WithEffect(l.Commit(fence, l.Work()...), store.EffectNone, event.StatusRunning)).Err, store.ErrFenced)
			h.Is("release", h.Store.Release(h.Ctx, l.Run, fence), store.ErrFenced)
		})
		h.Equal("owned by the first session", len(h.Reconcile(s)), 0)
		h.Finish(l, taken, event.StatusCanceled)
		_, err = h.seize(s, l, true)
		suite.As[*store.TerminalError](h.Harness, "seize a run that has ended", err)
	}},
	{"Seize_TakesParkedAndBlockedRuns", func(h *harness) {
		s := h.Session()
		parked := h.Start()
		h.Park(parked, h.one(s, parked), h.Clock.Now().Add(time.Hour))
		h.Finish(parked, h.seized(s, parked, false), event.StatusCanceled)
		blocked := h.Start()
		h.Commit(blocked, suite.WithEffect(blocked.Commit(h.one(s, blocked), blocked.Work()...), store.EffectBlock, event.StatusBlocked))
		h.Finish(blocked, h.seized(s, blocked, false), event.StatusCanceled)
		ready := h.Start()
		h.Finish(ready, h.seized(s, ready, false), event.StatusCanceled)
		h.nothing("after the end of all", s)
	}},
}
