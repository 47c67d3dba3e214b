package storetest

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// consuming returns the commit with items consumed from the front of the inbox.
func consuming(c store.Commit, items ...store.Item) store.Commit {
	if n := len(items); n > 0 {
		c.Consume, c.ConsumeLast = n, items[n-1].ID
	}
	return c
}

// conflicts fails the test unless the commit is refused as a conflict and writes nothing.
func (h *harness) conflicts(what string, c store.Commit) {
	h.Helper()
	h.unchanged(what, func() { isA[*store.ConflictError](h, what, h.try(c).Err) })
}

var commitBehaviors = []behavior{
	{"CommitAppendsAFrame", func(h *harness) {
		l, fence := h.startOwned(h.session())
		first := h.load(l.Run).Frames
		c := l.Commit(fence, l.Work()...)
		c.Status = event.StatusRunning
		h.equal("answer", h.commit(l, c), store.Committed{N: 2})
		got := h.load(l.Run)
		h.equal("frames", got.Frames, append(first, c.Frame))
		h.equal("n", got.Record.N, uint64(2))
		h.equal("seq", got.Record.Seq, c.Last)
		h.equal("last", got.Record.Last, c.CommitID)
		h.equal("status", got.Record.Status, event.StatusRunning)
		h.equal("queue state", got.Record.QueueState, store.StateOwned)
	}},
	{"CommitWithoutStatusLeavesIt", func(h *harness) {
		l, fence := h.startOwned(h.session())
		c := l.Commit(fence, l.Work()...)
		c.Status = event.StatusWaiting
		h.commit(l, c)
		h.commit(l, l.Commit(fence, l.Work()...))
		h.equal("status", h.record(l.Run).Status, event.StatusWaiting)
	}},
	{"CommitWithoutAFrameCarriesOutOnlyTheEffect", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.equal("answer", h.commit(l, withEffect(l.Commit(fence), store.EffectPark, event.StatusWaiting)), store.Committed{N: 1})
		got := h.record(l.Run)
		h.equal("n", got.N, uint64(1))
		h.equal("last", got.Last, l.Last)
		h.equal("queue state", got.QueueState, store.StateParked)
	}},
	{"CommitJudgesEachCommitByItself", func(h *harness) {
		s := h.session()
		a, fa := h.startOwned(s)
		b, fb := h.startOwned(s)
		one := a.Commit(fa, a.Work()...)
		wrong := b.Commit(fa, b.Work()...)
		two := b.Commit(fb, b.Work()...)
		got, err := h.store.Commit(h.ctx, []store.Commit{one, wrong, two})
		h.check("commit", err)
		h.equal("first answer", got[0], store.Committed{N: 2})
		h.is("second answer", got[1].Err, store.ErrFenced)
		h.equal("third answer", got[2], store.Committed{N: 2})
	}},
	{"CommitOfNothingAnswersNothing", func(h *harness) {
		got, err := h.store.Commit(h.ctx, nil)
		h.check("commit", err)
		h.equal("number of answers", len(got), 0)
	}},
	{"CommitToAnUnknownRunIsFenced", func(h *harness) {
		l := h.newLog(orders, "")
		l.Create()
		h.unchanged("a commit to nobody", func() {
			h.is("commit", h.try(l.Commit(store.Fence{}, l.Work()...)).Err, store.ErrFenced)
		})
	}},
	{"W3_TheSameCommitIsAppliedOnce", func(h *harness) {
		l, fence := h.startOwned(h.session())
		c := l.Commit(fence, l.Work()...)
		want := h.try(c)
		h.check("commit", want.Err)
		h.unchanged("the same commit", func() { h.equal("answer", h.try(c), want) })
	}},
	{"W3_TheSameCommitIsAppliedOnceWithEveryEffect", func(h *harness) {
		for _, e := range []store.Effect{store.EffectPark, store.EffectYield, store.EffectBlock, store.EffectFinish} {
			s := h.session()
			l := h.startAs(store.Route{Queue: "q", Workflow: string(rune('a' + e))}, "")
			i := h.deliver(l.Run)
			fence := h.own(s, l)
			c := withEffect(l.Commit(fence, append(l.Receive(i), l.End(event.StatusFailed)...)...), e, event.StatusFailed)
			if e != store.EffectFinish {
				c = withEffect(l.Commit(fence, l.Receive(i)...), e, event.StatusRunning)
			}
			c.Progress = true
			c = consuming(c, i)
			h.equal("answer", h.try(c), store.Committed{N: 2})
			h.unchanged("the same commit", func() { h.equal("answer", h.try(c), store.Committed{N: 2}) })
		}
	}},
	{"W3_ACommitIsKnownAgainAfterItsRunWasRecovered", func(h *harness) {
		l, fence := h.startOwned(h.session())
		c := l.Commit(fence, l.Work()...)
		h.check("commit", h.try(c).Err) // its answer is lost
		next := h.session()
		h.recoverDead(next)
		h.unchanged("the same commit", func() { h.check("commit again", h.try(c).Err) })
		h.own(next, l)
		h.unchanged("the same commit", func() { h.check("commit once more", h.try(c).Err) })
	}},
	{"W4_ACommitThatWasAppliedIsFencedOnceTheLogHasGoneOn", func(h *harness) {
		l, fence := h.startOwned(h.session())
		c := l.Commit(fence, l.Work()...)
		h.commit(l, c)
		next := h.session()
		h.recoverDead(next)
		h.commit(l, l.Commit(h.own(next, l), l.Work()...))
		h.unchanged("the same commit", func() { h.is("commit again", h.try(c).Err, store.ErrFenced) })
	}},
	{"F1_CommitNeedsEpochAndToken", func(h *harness) {
		l, fence := h.startOwned(h.session())
		for what, wrong := range map[string]store.Fence{
			"another token":     {Epoch: fence.Epoch, Token: h.ids.Token()},
			"an empty token":    {Epoch: fence.Epoch},
			"an earlier epoch":  {Epoch: fence.Epoch - 1, Token: fence.Token},
			"a later epoch":     {Epoch: fence.Epoch + 1, Token: fence.Token},
			"nothing that fits": {},
		} {
			h.unchanged(what, func() { h.is(what, h.try(l.Commit(wrong, l.Work()...)).Err, store.ErrFenced) })
		}
	}},
	{"F1_AnEmptyTokenOpensNoRunWithoutAnOwner", func(h *harness) {
		s := h.session()
		ready := h.start()
		parked, fence := h.startOwnedAs(s, refunds)
		h.park(parked, fence, h.clock.Now().Add(ttl))
		ended, fence := h.startOwnedAs(s, refunds)
		h.finish(ended, fence, event.StatusFailed)
		for _, l := range []*Log{ready, parked, ended} {
			empty := store.Fence{Epoch: h.record(l.Run).Fence.Epoch}
			c := l.Commit(empty)
			c.Progress, c.Status = true, event.StatusRunning
			h.unchanged("a commit without a token", func() {
				h.is("commit", h.try(c).Err, store.ErrFenced)
				h.is("release", h.store.Release(h.ctx, l.Run, empty), store.ErrFenced)
			})
		}
	}},
	{"CommitMustNameTheWorkflowIDOfItsRun", func(h *harness) {
		wid := h.workflowID("order")
		l := h.startAs(orders, wid)
		fence := h.own(h.session(), l)
		for _, wrong := range []string{"", h.workflowID("another")} {
			c := l.Commit(fence, l.Work()...)
			c.WorkflowID = wrong
			h.unchanged("the commit", func() {
				e := as[*store.WorkflowIDMismatchError](h, "commit", h.try(c).Err)
				h.equal("error", *e, store.WorkflowIDMismatchError{Run: l.Run, Got: wrong, Want: wid})
			})
		}
	}},
	{"F3_CommitMustContinueTheLastFrame", func(h *harness) {
		l, fence := h.startOwned(h.session())
		c := l.Commit(fence, l.Work()...)
		c.Prev = h.ids.CommitID()
		h.conflicts("a commit behind another frame", c)
		e := as[*store.ConflictError](h, "a commit behind another frame", h.try(c).Err)
		h.equal("run", e.Run, l.Run)
		h.equal("stored seq", e.StoredSeq, uint64(1))
		h.equal("stored frame", e.Stored, l.Last)
		h.equal("prev", e.Prev, c.Prev)
		c = l.Commit(fence)
		c.Prev = h.ids.CommitID()
		h.conflicts("an effect behind another frame", c)
	}},
	{"F3_APositionIsNotACount", func(h *harness) {
		l, fence := h.startOwned(h.session())
		lost := l.Commit(fence, l.Work()...)
		stored := l.Commit(fence, l.Work()...)
		h.commit(l, stored) // as many events as in the commit that was lost
		c := l.Commit(fence, l.Work()...)
		c.Prev = lost.CommitID
		h.conflicts("a commit behind a frame of the same number", c)
	}},
	{"CommitMustContinueTheSequence", func(h *harness) {
		l, fence := h.startOwned(h.session())
		for _, first := range []uint64{0, 1, 3} {
			c := l.Commit(fence, l.Work()...)
			c.First = first
			h.conflicts("a commit with a gap", c)
		}
	}},
	{"M3_ConsumeNamesTheItem", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		one, two := h.deliver(l.Run), h.deliver(l.Run)
		c := consuming(l.Commit(fence, l.Receive(one)...), one)
		c.ConsumeLast = two.ID
		h.conflicts("the first item under the name of the second", c)
		c = consuming(l.Commit(fence, l.Receive(one, two)...), one, two)
		c.Consume = 3
		h.conflicts("more than there is", c)
		h.commit(l, consuming(l.Commit(fence, l.Receive(one)...), one))
		h.conflicts("an item that was taken before", consuming(l.Commit(fence, l.Receive(one)...), one))
		h.equal("inbox", h.load(l.Run).Inbox, []store.Item{two})
	}},
	{"ConsumeTakesFromTheFront", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		one, two, three := h.deliver(l.Run), h.deliver(l.Run), h.deliver(l.Run)
		got := h.commit(l, consuming(l.Commit(fence, l.Receive(one, two)...), one, two))
		h.equal("unread items", got.Unread, true)
		h.equal("inbox", h.load(l.Run).Inbox, []store.Item{three})
		got = h.commit(l, consuming(l.Commit(fence, l.Receive(three)...), three))
		h.equal("unread items", got.Unread, false)
		h.equal("inbox", h.load(l.Run).Inbox, []store.Item(nil))
		h.equal("runs with unread items", h.inspect().Unread, map[store.SessionID][]event.RunID(nil))
	}},
	{"CommitTellsOfUnreadItems", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.deliver(l.Run)
		c := l.Commit(fence, l.Work()...)
		h.equal("unread items", h.commit(l, c).Unread, true)
		h.equal("unread items in the answer to the same commit", h.try(c).Unread, true)
	}},
	{"M4_ParkAndFinishNeedAnEmptyInbox", func(h *harness) {
		l, fence := h.startOwned(h.session())
		one := h.deliver(l.Run)
		two := h.deliver(l.Run)
		for _, e := range []store.Effect{store.EffectPark, store.EffectFinish} {
			h.unchanged("a commit that overlooks items", func() {
				h.is("with none read", h.try(withEffect(l.Commit(fence, l.Work()...), e, "")).Err, store.ErrUnread)
				h.is("with one read", h.try(consuming(withEffect(l.Commit(fence, l.Receive(one)...), e, ""), one)).Err, store.ErrUnread)
				h.is("without a frame", h.try(withEffect(l.Commit(fence), e, "")).Err, store.ErrUnread)
			})
		}
		h.commit(l, consuming(withEffect(l.Commit(fence, l.Receive(one, two)...), store.EffectPark, ""), one, two))
		h.state(l.Run, store.StateParked)
	}},
	{"YieldAndBlockLeaveTheInboxAlone", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		i := h.deliver(l.Run)
		h.equal("unread items", h.commit(l, withEffect(l.Commit(fence), store.EffectYield, "")).Unread, false)
		fence = h.own(s, l)
		h.block(l, fence)
		h.equal("inbox", h.load(l.Run).Inbox, []store.Item{i})
		h.equal("runs with unread items", h.inspect().Unread, map[store.SessionID][]event.RunID(nil))
	}},
	{"W4_AnOlderGuardAnswersBeforeAYoungerOne", func(h *harness) {
		wid := h.workflowID("order")
		l := h.startAs(orders, wid)
		fence := h.own(h.session(), l)
		i := h.deliver(l.Run)
		c := withEffect(l.Commit(fence, l.Work()...), store.EffectPark, "")
		h.is("unread items alone", h.try(c).Err, store.ErrUnread)
		c.Consume, c.ConsumeLast = 1, i.ID+"-not"
		isA[*store.ConflictError](h, "wrong item before unread items", h.try(c).Err)
		c.Prev = h.ids.CommitID()
		isA[*store.ConflictError](h, "wrong position", h.try(c).Err)
		c.WorkflowID = "another"
		isA[*store.WorkflowIDMismatchError](h, "wrong workflow id before wrong position", h.try(c).Err)
		c.Fence.Token = h.ids.Token()
		h.is("wrong fence before wrong workflow id", h.try(c).Err, store.ErrFenced)
		c.CommitID = l.Last
		h.check("applied before everything", h.try(c).Err)
	}},
}
