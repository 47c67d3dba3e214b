package runs

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var commitBehaviors = []behavior{
	{"CommitAppendsAFrame", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		first := h.Load(l.Run).Frames
		c := l.Commit(fence, l.Work()...)
		c.Status = event.StatusRunning
		h.Equal("answer", h.Commit(l, c), store.Committed{N: 2})
		got := h.Load(l.Run)
		h.Equal("frames", got.Frames, append(first, c.Frame))
		h.Equal("n", got.Record.N, uint64(2))
		h.Equal("seq", got.Record.Seq, c.Last)
		h.Equal("last", got.Record.Last, c.CommitID)
		h.Equal("status", got.Record.Status, event.StatusRunning)
		h.Equal("queue state", got.Record.QueueState, store.StateOwned)
	}},
	{"CommitWithoutStatusLeavesIt", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		c := l.Commit(fence, l.Work()...)
		c.Status = event.StatusWaiting
		h.Commit(l, c)
		h.Commit(l, l.Commit(fence, l.Work()...))
		h.Equal("status", h.Record(l.Run).Status, event.StatusWaiting)
	}},
	{"CommitWithoutAFrameCarriesOutOnlyTheEffect", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Equal("answer", h.Commit(l, suite.WithEffect(l.Commit(fence), store.EffectPark, event.StatusWaiting)), store.Committed{N: 1})
		got := h.Record(l.Run)
		h.Equal("n", got.N, uint64(1))
		h.Equal("last", got.Last, l.Last)
		h.Equal("queue state", got.QueueState, store.StateParked)
	}},
	{"CommitJudgesEachCommitByItself", func(h *harness) {
		s := h.Session()
		a, fa := h.StartOwned(s)
		b, fb := h.StartOwned(s)
		one := a.Commit(fa, a.Work()...)
		wrong := b.Commit(fa, b.Work()...)
		two := b.Commit(fb, b.Work()...)
		got, err := h.Store.Commit(h.Ctx, []store.Commit{one, wrong, two})
		h.Check("commit", err)
		h.Equal("first answer", got[0], store.Committed{N: 2})
		h.Is("second answer", got[1].Err, store.ErrFenced)
		h.Equal("third answer", got[2], store.Committed{N: 2})
	}},
	{"CommitOfNothingAnswersNothing", func(h *harness) {
		got, err := h.Store.Commit(h.Ctx, nil)
		h.Check("commit", err)
		h.Equal("number of answers", len(got), 0)
	}},
	{"CommitToAnUnknownRunIsFenced", func(h *harness) {
		l := h.NewLog(suite.Orders, "")
		l.Create()
		h.Unchanged("a commit to nobody", func() {
			h.Is("commit", h.Try(l.Commit(store.Fence{}, l.Work()...)).Err, store.ErrFenced)
		})
	}},
	{"W3_TheSameCommitIsAppliedOnce", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		c := l.Commit(fence, l.Work()...)
		want := h.Try(c)
		h.Check("commit", want.Err)
		h.Unchanged("the same commit", func() { h.Equal("answer", h.Try(c), want) })
	}},
	{"W3_TheSameCommitIsAppliedOnceWithEveryEffect", func(h *harness) {
		for _, e := range []store.Effect{store.EffectPark, store.EffectYield, store.EffectBlock, store.EffectFinish} {
			s := h.Session()
			l := h.StartAs(store.Route{Queue: "q", Workflow: string(rune('a' + e))}, "")
			i := h.Deliver(l.Run)
			fence := h.Own(s, l)
			c := suite.WithEffect(l.Commit(fence, append(l.Receive(i), l.End(event.StatusFailed)...)...), e, event.StatusFailed)
			if e != store.EffectFinish {
				c = suite.WithEffect(l.Commit(fence, l.Receive(i)...), e, event.StatusRunning)
			}
			c.Progress = true
			c = suite.Consuming(c, i)
			h.Equal("answer", h.Try(c), store.Committed{N: 2})
			h.Unchanged("the same commit", func() { h.Equal("answer", h.Try(c), store.Committed{N: 2}) })
		}
	}},
	{"W3_ACommitIsKnownAgainAfterItsRunWasRecovered", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		c := l.Commit(fence, l.Work()...)
		h.Check("commit", h.Try(c).Err) // the caller does not receive the answer
		next := h.Session()
		h.RecoverDead(next)
		h.Unchanged("the same commit", func() { h.Check("commit again", h.Try(c).Err) })
		h.Own(next, l)
		h.Unchanged("the same commit", func() { h.Check("commit once more", h.Try(c).Err) })
	}},
	{"W4_ACommitThatWasAppliedIsFencedOnceTheLogHasGoneOn", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		c := l.Commit(fence, l.Work()...)
		h.Commit(l, c)
		next := h.Session()
		h.RecoverDead(next)
		h.Commit(l, l.Commit(h.Own(next, l), l.Work()...))
		h.Unchanged("the same commit", func() { h.Is("commit again", h.Try(c).Err, store.ErrFenced) })
	}},
	{"F1_CommitNeedsEpochAndToken", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		for what, wrong := range map[string]store.Fence{
			"another token":     {Epoch: fence.Epoch, Token: h.IDs.Token()},
			"an empty token":    {Epoch: fence.Epoch},
			"an earlier epoch":  {Epoch: fence.Epoch - 1, Token: fence.Token},
			"a later epoch":     {Epoch: fence.Epoch + 1, Token: fence.Token},
			"nothing that fits": {},
		} {
			h.Unchanged(what, func() { h.Is(what, h.Try(l.Commit(wrong, l.Work()...)).Err, store.ErrFenced) })
		}
	}},
	{"F1_AnEmptyTokenOpensNoRunWithoutAnOwner", func(h *harness) {
		s := h.Session()
		ready := h.Start()
		parked, fence := h.StartOwnedAs(s, suite.Refunds)
		h.Park(parked, fence, h.Clock.Now().Add(suite.TTL))
		ended, fence := h.StartOwnedAs(s, suite.Refunds)
		h.Finish(ended, fence, event.StatusFailed)
		for _, l := range []*suite.Log{ready, parked, ended} {
			empty := store.Fence{Epoch: h.Record(l.Run).Fence.Epoch}
			c := l.Commit(empty)
			c.Progress, c.Status = true, event.StatusRunning
			h.Unchanged("a commit without a token", func() {
				h.Is("commit", h.Try(c).Err, store.ErrFenced)
				h.Is("release", h.Store.Release(h.Ctx, l.Run, empty), store.ErrFenced)
			})
		}
	}},
	{"CommitMustNameTheWorkflowIDOfItsRun", func(h *harness) {
		wid := h.WorkflowID("order")
		l := h.StartAs(suite.Orders, wid)
		fence := h.Own(h.Session(), l)
		for _, wrong := range []string{"", h.WorkflowID("another")} {
			c := l.Commit(fence, l.Work()...)
			c.WorkflowID = wrong
			h.Unchanged("the commit", func() {
				e := suite.As[*store.WorkflowIDMismatchError](h.Harness, "commit", h.Try(c).Err)
				h.Equal("error", *e, store.WorkflowIDMismatchError{Run: l.Run, Got: wrong, Want: wid})
			})
		}
	}},
	{"F3_CommitMustContinueTheLastFrame", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		c := l.Commit(fence, l.Work()...)
		c.Prev = h.IDs.CommitID()
		h.Conflicts("a commit behind another frame", c)
		e := suite.As[*store.ConflictError](h.Harness, "a commit behind another frame", h.Try(c).Err)
		h.Equal("run", e.Run, l.Run)
		h.Equal("stored seq", e.StoredSeq, uint64(1))
		h.Equal("stored frame", e.Stored, l.Last)
		h.Equal("prev", e.Prev, c.Prev)
		c = l.Commit(fence)
		c.Prev = h.IDs.CommitID()
		h.Conflicts("an effect behind another frame", c)
	}},
	{"F3_APositionIsNotACount", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		lost := l.Commit(fence, l.Work()...)
		stored := l.Commit(fence, l.Work()...)
		h.Commit(l, stored) // this commit has as many events as the lost one
		c := l.Commit(fence, l.Work()...)
		c.Prev = lost.CommitID
		h.Conflicts("a commit behind a frame of the same number", c)
	}},
	{"CommitMustContinueTheSequence", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		for _, first := range []uint64{0, 1, 3} {
			c := l.Commit(fence, l.Work()...)
			c.First = first
			h.Conflicts("a commit with a gap", c)
		}
	}},
	{"M3_ConsumeNamesTheItem", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		one, two := h.Deliver(l.Run), h.Deliver(l.Run)
		c := suite.Consuming(l.Commit(fence, l.Receive(one)...), one)
		c.ConsumeLast = two.ID
		h.Conflicts("the first item under the name of the second", c)
		c = suite.Consuming(l.Commit(fence, l.Receive(one, two)...), one, two)
		c.Consume = 3
		h.Conflicts("more than there is", c)
		h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(one)...), one))
		h.Conflicts("an item that was taken before", suite.Consuming(l.Commit(fence, l.Receive(one)...), one))
		h.Equal("inbox", h.Load(l.Run).Inbox, []store.Item{two})
	}},
	{"ConsumeTakesFromTheFront", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		one, two, three := h.Deliver(l.Run), h.Deliver(l.Run), h.Deliver(l.Run)
		got := h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(one, two)...), one, two))
		h.Equal("unread items", got.Unread, true)
		h.Equal("inbox", h.Load(l.Run).Inbox, []store.Item{three})
		got = h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(three)...), three))
		h.Equal("unread items", got.Unread, false)
		h.Equal("inbox", h.Load(l.Run).Inbox, []store.Item(nil))
		h.Equal("runs with unread items", h.Inspect().Unread, map[store.SessionID][]event.RunID(nil))
	}},
	{"CommitTellsOfUnreadItems", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Deliver(l.Run)
		c := l.Commit(fence, l.Work()...)
		h.Equal("unread items", h.Commit(l, c).Unread, true)
		h.Equal("unread items in the answer to the same commit", h.Try(c).Unread, true)
	}},
	{"M4_ParkAndFinishNeedAnEmptyInbox", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		one := h.Deliver(l.Run)
		two := h.Deliver(l.Run)
		for _, e := range []store.Effect{store.EffectPark, store.EffectFinish} {
			h.Unchanged("a commit that overlooks items", func() {
				h.Is("with none read", h.Try(suite.WithEffect(l.Commit(fence, l.Work()...), e, "")).Err, store.ErrUnread)
				h.Is("with one read", h.Try(suite.Consuming(suite.WithEffect(l.Commit(fence, l.Receive(one)...), e, ""), one)).Err, store.ErrUnread)
				h.Is("without a frame", h.Try(suite.WithEffect(l.Commit(fence), e, "")).Err, store.ErrUnread)
			})
		}
		h.Commit(l, suite.Consuming(suite.WithEffect(l.Commit(fence, l.Receive(one, two)...), store.EffectPark, ""), one, two))
		h.State(l.Run, store.StateParked)
	}},
	{"YieldAndBlockLeaveTheInboxAlone", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		i := h.Deliver(l.Run)
		h.Equal("unread items", h.Commit(l, suite.WithEffect(l.Commit(fence), store.EffectYield, "")).Unread, false)
		fence = h.Own(s, l)
		h.Block(l, fence)
		h.Equal("inbox", h.Load(l.Run).Inbox, []store.Item{i})
		h.Equal("runs with unread items", h.Inspect().Unread, map[store.SessionID][]event.RunID(nil))
	}},
	{"W4_AnOlderGuardAnswersBeforeAYoungerOne", func(h *harness) {
		wid := h.WorkflowID("order")
		l := h.StartAs(suite.Orders, wid)
		fence := h.Own(h.Session(), l)
		i := h.Deliver(l.Run)
		c := suite.WithEffect(l.Commit(fence, l.Work()...), store.EffectPark, "")
		h.Is("unread items alone", h.Try(c).Err, store.ErrUnread)
		c.Consume, c.ConsumeLast = 1, i.ID+"-not"
		suite.IsA[*store.ConflictError](h.Harness, "wrong item before unread items", h.Try(c).Err)
		c.Prev = h.IDs.CommitID()
		suite.IsA[*store.ConflictError](h.Harness, "wrong position", h.Try(c).Err)
		c.WorkflowID = "another"
		suite.IsA[*store.WorkflowIDMismatchError](h.Harness, "wrong workflow id before wrong position", h.Try(c).Err)
		c.Fence.Token = h.IDs.Token()
		h.Is("wrong fence before wrong workflow id", h.Try(c).Err, store.ErrFenced)
		c.CommitID = l.Last
		h.Check("applied before everything", h.Try(c).Err)
	}},
}
