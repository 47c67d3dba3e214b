package chains

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// consumeAndFinish commits the end of an owned run. The commit consumes the whole inbox.
func (h *harness) consumeAndFinish(l *suite.Log, fence store.Fence) {
	h.Helper()
	items := h.Load(l.Run).Inbox
	c := suite.WithEffect(l.Commit(fence, append(l.Receive(items...), l.End(event.StatusCompleted)...)...), store.EffectFinish, event.StatusCompleted)
	h.Commit(l, suite.Consuming(c, items...))
}

var continueBehaviors = []behavior{
	{"ContinuePutsANewRunIntoThePlaceOfTheOld", func(h *harness) {
		wid, s := h.WorkflowID("order"), h.Session()
		last := h.Ended(suite.Named(wid))
		l := h.NewLog(suite.Orders, wid)
		l.Spec.Tags, l.Spec.Retention = map[string]string{"a": "b"}, suite.Long
		l.Spec.Parent, l.Spec.Root = h.RunID(), h.RunID()
		h.Create(l.Create())
		fence := h.Own(s, l)
		h.Poll(s, suite.Orders)
		h.Clock.Advance(time.Second)
		c, next := l.Continue(fence, nil)
		c.Continue.Priority = 7
		h.Equal("answer", h.Commit(l, c), store.Committed{N: 2})

		snap := h.Inspect()
		old := snap.Runs[l.Run]
		h.Equal("queue state", old.QueueState, store.StateEnded)
		h.Equal("status", old.Status, event.StatusContinued)
		h.Equal("next", old.Next, next.Run)
		h.Equal("ended at", old.EndedAt, h.Clock.Now())
		h.Equal("owner", old.Owner, store.SessionID(""))
		h.Equal("token", old.Fence.Token, event.Token{})
		h.Equal("frames", len(old.Frames), 2)
		h.Equal("new run", snap.Runs[next.Run], &store.RunState{
			Record: store.Record{
				Run: next.Run, Chain: l.Run, WorkflowID: wid, Route: suite.Orders, Priority: 7, Tags: next.Spec.Tags,
				Parent: next.Spec.Parent, Root: next.Spec.Root, Retention: suite.Long, QueueState: store.StateReady,
				Status: event.StatusPending, N: 1, Seq: c.Continue.Seq, Last: c.Continue.CommitID, CreatedAt: h.Clock.Now(),
			},
			Frames: [][]byte{c.Continue.Frame},
		})
		h.Equal("active", snap.Active, map[string]event.RunID{wid: next.Run})
		h.Equal("last ended", snap.LastEnded, map[string]event.RunID{wid: last.Run})
		h.Equal("ready", snap.Ready, map[store.Route][]event.RunID{suite.Orders: {next.Run}})
		h.Equal("wake", snap.Wakes[suite.Orders], true)
		h.Equal("owned", snap.Owned, map[store.SessionID][]event.RunID(nil))
		got, err := h.Store.Resolve(h.Ctx, wid)
		h.Check("resolve", err)
		h.Equal("resolve", got, next.Run)
		h.Finish(next, h.Own(s, next), event.StatusCompleted)
		h.Equal("last ended in the end", h.Inspect().LastEnded, map[string]event.RunID{wid: next.Run})
	}},
	{"ContinueLooksAtNoPolicyAndNoTime", func(h *harness) {
		wid := h.WorkflowID("order")
		l := h.StartAs(suite.Orders, wid)
		c, next := l.Continue(h.Own(h.Session(), l), nil)
		c.Continue.Active, c.Continue.Finished = store.ActiveFail, store.FinishedReject
		c.Continue.Delay, c.Continue.At = time.Hour, h.Clock.Now().Add(time.Hour)
		c.Continue.CreatedBy, c.Continue.Deadline = h.IDs.Item(), h.Clock.Now().Add(-time.Hour)
		h.Commit(l, c)
		got := h.Record(next.Run)
		h.Equal("queue state", got.QueueState, store.StateReady)
		h.Equal("creator", got.CreatedBy, event.ItemID(""))
	}},
	{"F2_ContinueFencesTheOwner", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		h.ContinueRun(l, fence)
		h.Unchanged("what comes after it", func() {
			h.Is("commit", h.Try(l.Commit(fence, event.Event{Type: event.ValueRecorded, Key: "value"})).Err, store.ErrFenced)
			h.Is("release", h.Store.Release(h.Ctx, l.Run, fence), store.ErrFenced)
			_, err := h.Store.ClaimRun(h.Ctx, 0, s, h.IDs.Token(), l.Run)
			h.Equal("claim run", *suite.As[*store.TerminalError](h.Harness, "claim run", err), store.TerminalError{Run: l.Run, Status: event.StatusContinued})
		})
	}},
	{"ContinueEndsTheStepDataOfTheOldRun", func(h *harness) {
		if !suite.Has[store.StepDataStore](h.Store) {
			return
		}
		l, fence := h.StartOwned(h.Session())
		h.Check("set step data", h.SetStepData(l, fence, "x", "1"))
		next := h.ContinueRun(l, fence)
		h.Equal("step data of the old run", h.StepData(l.Run), map[string]string(nil))
		h.Equal("step data of the new run", h.StepData(next.Run), map[string]string(nil))
	}},
	{"M4_ContinueTakesTheRestOfTheInboxAlong", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		read, one, two := h.Deliver(l.Run), h.Deliver(l.Run), h.Deliver(l.Run)
		c, next := l.Continue(fence, nil, l.Receive(read)...)
		h.Equal("unread items told by the commit", h.Commit(l, suite.Consuming(c, read)).Unread, false)
		snap := h.Inspect()
		h.Equal("inbox of the old run", snap.Runs[l.Run].Inbox, []store.Item(nil))
		h.Equal("inbox of the new run", snap.Runs[next.Run].Inbox, []store.Item{one, two})
		h.Equal("unread items", snap.Unread, map[store.SessionID][]event.RunID(nil))
		claimed := h.Claim(s, 1)
		h.Equal("unread items told by the claim", claimed[0].Unread, true)
		three := h.Deliver(next.Run)
		h.Equal("inbox", h.Load(next.Run).Inbox, []store.Item{one, two, three})
		h.consumeAndFinish(next, claimed[0].Fence)
	}},
	{"M4_ContinueCarriesOverWhatTheCodeHasNotTaken", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		one, two := h.Deliver(l.Run), h.Deliver(l.Run)
		c, next := l.Continue(fence, []store.Item{one}, l.Receive(one)...)
		h.Commit(l, suite.Consuming(c, one))
		h.Equal("inbox of the new run", h.Load(next.Run).Inbox, []store.Item{two})
		for _, i := range []store.Item{one, two} {
			h.Unchanged("the same item", func() {
				got, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: l.Run, Item: i})
				h.Check("deliver", err)
				h.Equal("accepted by", got, next.Run)
			})
		}
	}},
	{"M4_ContinueNeedsItemsForTheRunAloneToBeRead", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		one, own, two := h.Deliver(l.Run), h.deliverAlone(l.Run), h.Deliver(l.Run)
		h.Unchanged("commits that overlook it", func() {
			c, _ := l.Continue(fence, nil)
			h.Is("with none read", h.Try(c).Err, store.ErrUnread)
			c, _ = l.Continue(fence, nil, l.Receive(one)...)
			h.Is("with one read", h.Try(suite.Consuming(c, one)).Err, store.ErrUnread)
		})
		c, next := l.Continue(fence, nil, l.Receive(one, own)...)
		h.Commit(l, suite.Consuming(c, one, own))
		h.Equal("inbox of the new run", h.Load(next.Run).Inbox, []store.Item{two})
	}},
	{"W4_TheGuardsOfContinueAnswerInTheirOrder", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		other := h.Start()
		i := h.deliverAlone(l.Run)
		c, _ := l.Continue(fence, nil, l.Receive(i)...)
		h.Unchanged("commits that are refused", func() {
			c.Continue.Run = other.Run
			suite.IsA[*store.ConflictError](h.Harness, "a new run that exists", h.Try(suite.Consuming(c, i)).Err)
			h.Is("unread before that", h.Try(c).Err, store.ErrUnread)
			c.Consume, c.ConsumeLast = 1, i.ID+"-not"
			suite.IsA[*store.ConflictError](h.Harness, "wrong item before unread", h.Try(c).Err)
			c.First++
			suite.IsA[*store.ConflictError](h.Harness, "wrong sequence", h.Try(c).Err)
			c.First--
			c.Prev = h.IDs.CommitID()
			suite.IsA[*store.ConflictError](h.Harness, "wrong position", h.Try(c).Err)
			c.WorkflowID, c.Continue.WorkflowID = "another", "another"
			suite.IsA[*store.WorkflowIDMismatchError](h.Harness, "wrong workflow id before that", h.Try(c).Err)
			c.Fence.Token = h.IDs.Token()
			h.Is("wrong fence before that", h.Try(c).Err, store.ErrFenced)
			c.CommitID = l.Last
			h.Check("applied before everything", h.Try(c).Err)
			c.Run = h.RunID()
			h.Is("unknown before that", h.Try(c).Err, store.ErrFenced)
		})
	}},
	{"ContinueWithoutARightNewRunFails", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		good := h.StartAs(suite.Refunds, "")
		h.Unchanged("calls that fail", func() {
			for what, change := range map[string]func(*store.Commit){
				"without a new run":      func(c *store.Commit) { c.Continue = nil },
				"of another workflow id": func(c *store.Commit) { c.Continue.WorkflowID = "another" },
				"of another partition": func(c *store.Commit) {
					c.Continue.Run = h.IDs.Run(h.Clock.Now(), 1)
					if h.Store.Partitions() == 1 {
						c.Continue = nil
					}
				},
			} {
				c, _ := l.Continue(fence, nil)
				change(&c)
				if _, err := h.Store.Commit(h.Ctx, []store.Commit{good.Commit(store.Fence{}, good.Work()...), c}); err == nil {
					h.Errorf("continue %s: got no error", what)
				}
			}
		})
	}},
	{"W3_ContinueSentAgainIsAppliedOnce", func(h *harness) {
		s := h.Session()
		l := h.StartAs(suite.Orders, h.WorkflowID("order"))
		i := h.Deliver(l.Run)
		h.Deliver(l.Run)
		c, next := l.Continue(h.Own(s, l), nil, l.Receive(i)...)
		c = suite.Sending(suite.Consuming(c, i), h.NewSend(h.RunID()))
		want := h.Commit(l, c)
		want.Sent = nil // a repeated commit writes nothing and returns no records
		again := func(what string) {
			h.Helper()
			h.Unchanged("the same commit "+what, func() { h.Equal("answer", h.Try(c), want) })
		}
		again("at once")
		fence := h.Own(s, next)
		again("when the new run is owned")
		h.consumeAndFinish(next, fence)
		again("when the new run has ended")
		h.Clock.Advance(store.DefaultRetention)
		h.Purged(1)
		h.Gone(next.Run)
		again("when the new run is gone")
	}},
	{"ContinueTellsThoseWhoWatchTheOldRun", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		p := h.Watch(l.Run, 1)
		next := h.ContinueRun(l, fence)
		h.Watched(p)
		p = h.Watch(next.Run, 1)
		h.Finish(next, h.Own(h.Session(), next), event.StatusCompleted)
		h.Watched(p)
	}},
	{"K2_ContinueWakesABlockedWait", func(h *harness) {
		s, waiter := h.Session(), h.Session()
		l, fence := h.StartOwned(s)
		h.Poll(waiter, suite.Orders)
		p := h.Wait(suite.WaitFor(waiter, suite.Orders))
		h.ContinueRun(l, fence)
		h.Equal("claim", h.Woken("wait", p).Claim, []int{0})
	}},
}

// deliverAlone delivers a new item with store.ScopeRun to a run, which must accept the item.
func (h *harness) deliverAlone(run event.RunID) store.Item {
	h.Helper()
	i := h.Item()
	i.Scope = store.ScopeRun
	got, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: run, Item: i})
	h.Check("deliver", err)
	h.Equal("run that accepted the item", got, run)
	return i
}
