package runs

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var reopenBehaviors = []behavior{
	{"EverythingSurvivesCloseAndOpen", func(h *harness) {
		wid := h.WorkflowID("order")
		s := h.Session(suite.Orders)
		owned := h.StartAs(suite.Orders, wid)
		fence := h.Own(s, owned)
		h.LineUp(wid)
		parked, f := h.StartOwnedAs(s, suite.Refunds)
		h.Park(parked, f, h.Clock.Now().Add(time.Hour))
		blocked, f := h.StartOwnedAs(s, suite.Refunds)
		h.Block(blocked, f)
		ended, f := h.StartOwnedAs(s, suite.Refunds)
		h.Finish(ended, f, event.StatusFailed)
		deleted, f := h.StartOwnedAs(s, suite.Refunds)
		h.Finish(deleted, f, event.StatusFailed)
		h.Check("delete", h.Delete(deleted.Run))
		recovered, _ := h.StartOwnedAs(h.Session(), suite.Refunds)
		h.RecoverDead(s)
		h.Deliver(recovered.Run)
		tagged := h.NewLog(suite.Orders, "")
		tagged.Spec.Tags = map[string]string{"a": "b", "c": ""}
		tagged.Spec.Parent, tagged.Spec.Root = h.RunID(), h.RunID()
		c := tagged.Create()
		c.Priority, c.Retention = 3, suite.Long
		h.Create(c)
		h.Start()

		h.Unchanged("close and open", h.Reopen)
		h.Commit(owned, owned.Commit(fence, owned.Work()...))
		h.Clock.Advance(2 * time.Hour)
		h.Due(100)
		h.State(parked.Run, store.StateReady)
		h.Purged(1)
		h.State(ended.Run, store.StateEnded)
	}},
	{"C1_ACreateWithAnOwnerIsKnownAgainAfterOpen", func(h *harness) {
		s := h.Session()
		l, c := h.BearAs(s, h.WorkflowID("order"))
		h.Unchanged("close and open", h.Reopen)
		h.Unchanged("the same create", func() {
			h.Equal("answer", h.Create(c), store.Created{Run: l.Run, New: true, Fence: c.Owner.Fence()})
		})
		h.Commit(l, l.Commit(c.Owner.Fence(), l.Work()...))
		h.Bear(s)
	}},
	{"TheOutboxAndWhatItLeavesSurviveCloseAndOpen", func(h *harness) {
		l, fence, sends := h.Sender(4)
		for n, phase := range []store.Phase{store.PhaseFresh, store.PhaseAnswered, store.PhaseSettled} {
			h.Settled(l, phase, sends[n])
			h.Clock.Advance(time.Second)
		}
		h.Clock.Advance(store.Horizon)
		h.Finish(l, fence, event.StatusCompleted)
		creator := h.IDs.Item()
		created := h.CreatedBy(creator, suite.Keep(suite.Long))
		h.Finish(created, h.Own(h.Session(), created), event.StatusCompleted)
		i := h.Item()
		receiver := h.Start()
		h.Accepts("that is kept", store.Deliver{Run: receiver.Run, Item: i, Keep: true}, receiver.Run)

		h.Unchanged("close and open", h.Reopen)
		h.Wants("after open", sends...)
		h.Unchanged("the same item", func() { h.Accepts("again", store.Deliver{Run: receiver.Run, Item: i, Keep: true}, receiver.Run) })
		h.Settled(l, 0, sends...)
		h.Clock.Advance(2 * suite.Long)
		h.Purged(0)
		h.Confirm(created.Run, creator)
		h.Confirm(receiver.Run, i.ID)
		h.Purged(1)
	}},
	{"AChainSurvivesCloseAndOpen", func(h *harness) {
		wid := h.WorkflowID("order")
		runs := h.Chain(4, suite.Named(wid), suite.Keep(suite.Long))
		h.LineUp(wid)
		h.Accepts("to the chain", store.Deliver{Run: runs[1].Run, Item: h.Item(), Keep: true}, runs[3].Run)

		h.Unchanged("close and open", h.Reopen)
		for _, l := range runs {
			h.Accepts("to the chain after open", store.Deliver{Run: l.Run, Item: h.Item()}, runs[3].Run)
		}
		last := h.ContinueWithItems(h.Session(), runs[3])
		h.Accepts("to the chain once it has continued", store.Deliver{Run: runs[0].Run, Item: h.Item()}, last.Run)
		h.Clock.Advance(2 * suite.Long)
		h.Equal("next purge", h.Purged(2), time.Time{}) // the item holds back the second run, and the chain holds back the first run
		h.Reopen()
		h.Unchanged("a purge after open", func() { h.Equal("next purge", h.Purged(0), time.Time{}) })
		h.Accepts("by the first run", store.Deliver{Run: runs[0].Run, Item: h.Item()}, last.Run)
		h.ConfirmAll()
	}},
	{"StreamsSurviveCloseAndOpen", func(h *harness) {
		first, fence := h.StartOwned(h.Session())
		h.Publish(first, fence, append(suite.Bodies("1", "2", "3"), store.Publication{Keep: 2})...)
		h.Write(first, fence, suite.Side("4", "w", 1))
		h.Commit(first, first.Publishes(fence, store.Publication{Stream: "closed", Body: []byte("x"), Close: true}))
		second := h.ContinueRun(first, fence)
		fence = h.Own(h.Session(), second)

		h.Unchanged("close and open", h.Reopen)
		h.Unchanged("what was written before", func() { h.Write(second, fence, suite.Side("4", "w", 1)) })
		h.Is("publish", h.Store.Publish(h.Ctx, second.Run, fence, []store.Publication{{Stream: "closed", Body: []byte("y")}}), store.ErrStreamClosed)
		p := h.AwaitStream(first.Run, "a", 4)
		h.Write(second, fence, suite.Side("5", "w", 2))
		h.Awaited("after open", p, store.StreamPage{First: 2, Last: 5})
		h.Same("after open", "a", []string{"2", "3", "4", "5"}, store.StreamPage{First: 2, Last: 5}, first, second)
	}},
	{"W3_ACommitIsKnownAgainAfterOpen", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		c := l.Commit(fence, l.Work()...)
		want := h.Try(c)
		h.Check("commit", want.Err)
		h.Reopen()
		h.Unchanged("the same commit", func() { h.Equal("answer", h.Try(c), want) })
	}},
	{"TheOrderOfReadyRunsSurvivesOpen", func(h *harness) {
		var want []event.RunID
		for range 5 {
			want = append(want, h.Start().Run)
		}
		h.Reopen()
		want = append(want, h.Start().Run)
		h.Equal("claimed", suite.RunsOf(h.Claim(h.Session(), 10)), want)
	}},
	{"M1_SeenItemsSurviveOpen", func(h *harness) {
		l := h.Start()
		i := h.Deliver(l.Run)
		h.Reopen()
		h.Unchanged("the same item", func() {
			_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: i})
			h.Check("deliver", err)
		})
	}},
}
