package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// continueRun continues an owned run whose inbox is empty.
func (h *harness) continueRun(l *Log, fence store.Fence) *Log {
	h.Helper()
	c, next := l.Continue(fence, nil)
	h.commit(l, c)
	return next
}

// chain starts a run and continues it n-1 times. It returns all runs of the chain; the last one is
// ready.
func (h *harness) chain(n int, change ...func(*Log)) []*Log {
	h.Helper()
	l := h.newLog(orders, "")
	for _, f := range change {
		f(l)
	}
	if l.Spec.WorkflowID != "" {
		l.Run = h.ids.Run(h.clock.Now(), event.SlotOf(l.Spec.WorkflowID))
	}
	h.create(l.Create())
	all := []*Log{l}
	for range n - 1 {
		l = h.continueRun(l, h.own(h.session(), l))
		all = append(all, l)
	}
	return all
}

// consumeAndFinish ends an owned run with a commit that consumes its inbox.
func (h *harness) consumeAndFinish(l *Log, fence store.Fence) {
	h.Helper()
	items := h.load(l.Run).Inbox
	c := withEffect(l.Commit(fence, append(l.Receive(items...), l.End(event.StatusCompleted)...)...), store.EffectFinish, event.StatusCompleted)
	h.commit(l, consuming(c, items...))
}

var continueBehaviors = []behavior{
	{"ContinuePutsANewRunIntoThePlaceOfTheOld", func(h *harness) {
		wid, s := h.workflowID("order"), h.session()
		last := h.ended(named(wid))
		l := h.newLog(orders, wid)
		l.Spec.Tags, l.Spec.Retention = map[string]string{"a": "b"}, long
		l.Spec.Parent, l.Spec.Root = h.runID(), h.runID()
		h.create(l.Create())
		fence := h.own(s, l)
		h.poll(s, orders)
		h.clock.Advance(time.Second)
		c, next := l.Continue(fence, nil)
		c.Continue.Priority = 7
		h.equal("answer", h.commit(l, c), store.Committed{N: 2})

		snap := h.inspect()
		old := snap.Runs[l.Run]
		h.equal("queue state", old.QueueState, store.StateEnded)
		h.equal("status", old.Status, event.StatusContinued)
		h.equal("next", old.Next, next.Run)
		h.equal("ended at", old.EndedAt, h.clock.Now())
		h.equal("owner", old.Owner, store.SessionID(""))
		h.equal("token", old.Fence.Token, event.Token{})
		h.equal("frames", len(old.Frames), 2)
		h.equal("new run", snap.Runs[next.Run], &store.RunState{
			Record: store.Record{
				Run: next.Run, Chain: l.Run, WorkflowID: wid, Route: orders, Priority: 7, Tags: next.Spec.Tags,
				Parent: next.Spec.Parent, Root: next.Spec.Root, Retention: long, QueueState: store.StateReady,
				Status: event.StatusPending, N: 1, Seq: c.Continue.Seq, Last: c.Continue.CommitID, CreatedAt: h.clock.Now(),
			},
			Frames: [][]byte{c.Continue.Frame},
		})
		h.equal("active", snap.Active, map[string]event.RunID{wid: next.Run})
		h.equal("last ended", snap.LastEnded, map[string]event.RunID{wid: last.Run})
		h.equal("ready", snap.Ready, map[store.Route][]event.RunID{orders: {next.Run}})
		h.equal("wake", snap.Wakes[orders], true)
		h.equal("owned", snap.Owned, map[store.SessionID][]event.RunID(nil))
		got, err := h.store.Resolve(h.ctx, wid)
		h.check("resolve", err)
		h.equal("resolve", got, next.Run)
		h.finish(next, h.own(s, next), event.StatusCompleted)
		h.equal("last ended in the end", h.inspect().LastEnded, map[string]event.RunID{wid: next.Run})
	}},
	{"ContinueLooksAtNoPolicyAndNoTime", func(h *harness) {
		wid := h.workflowID("order")
		l := h.startAs(orders, wid)
		c, next := l.Continue(h.own(h.session(), l), nil)
		c.Continue.Active, c.Continue.Finished = store.ActiveFail, store.FinishedReject
		c.Continue.Delay, c.Continue.At = time.Hour, h.clock.Now().Add(time.Hour)
		c.Continue.CreatedBy, c.Continue.Deadline = h.ids.Item(), h.clock.Now().Add(-time.Hour)
		h.commit(l, c)
		got := h.record(next.Run)
		h.equal("queue state", got.QueueState, store.StateReady)
		h.equal("creator", got.CreatedBy, event.ItemID(""))
	}},
	{"F2_ContinueFencesTheOwner", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		h.continueRun(l, fence)
		h.unchanged("what comes after it", func() {
			h.is("commit", h.try(l.Commit(fence, event.Event{Type: event.ValueRecorded, Key: "value"})).Err, store.ErrFenced)
			h.is("release", h.store.Release(h.ctx, l.Run, fence), store.ErrFenced)
			_, err := h.store.ClaimRun(h.ctx, 0, s, h.ids.Token(), l.Run)
			h.equal("claim run", *as[*store.TerminalError](h, "claim run", err), store.TerminalError{Run: l.Run, Status: event.StatusContinued})
		})
	}},
	{"ContinueEndsTheStepDataOfTheOldRun", func(h *harness) {
		if !canKeepStepData(h.store) {
			return
		}
		l, fence := h.startOwned(h.session())
		h.check("set step data", h.setStepData(l, fence, "x", "1"))
		next := h.continueRun(l, fence)
		h.equal("step data of the old run", h.stepData(l.Run), map[string]string(nil))
		h.equal("step data of the new run", h.stepData(next.Run), map[string]string(nil))
	}},
	{"M4_ContinueTakesTheRestOfTheInboxAlong", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		read, one, two := h.deliver(l.Run), h.deliver(l.Run), h.deliver(l.Run)
		c, next := l.Continue(fence, nil, l.Receive(read)...)
		h.equal("unread items told by the commit", h.commit(l, consuming(c, read)).Unread, false)
		snap := h.inspect()
		h.equal("inbox of the old run", snap.Runs[l.Run].Inbox, []store.Item(nil))
		h.equal("inbox of the new run", snap.Runs[next.Run].Inbox, []store.Item{one, two})
		h.equal("unread items", snap.Unread, map[store.SessionID][]event.RunID(nil))
		claimed := h.claim(s, 1)
		h.equal("unread items told by the claim", claimed[0].Unread, true)
		three := h.deliver(next.Run)
		h.equal("inbox", h.load(next.Run).Inbox, []store.Item{one, two, three})
		h.consumeAndFinish(next, claimed[0].Fence)
	}},
	{"M4_ContinueCarriesOverWhatTheCodeHasNotTaken", func(h *harness) {
		l, fence := h.startOwned(h.session())
		one, two := h.deliver(l.Run), h.deliver(l.Run)
		c, next := l.Continue(fence, []store.Item{one}, l.Receive(one)...)
		h.commit(l, consuming(c, one))
		h.equal("inbox of the new run", h.load(next.Run).Inbox, []store.Item{two})
		for _, i := range []store.Item{one, two} {
			h.unchanged("the same item", func() {
				got, err := h.store.Deliver(h.ctx, store.Deliver{Run: l.Run, Item: i})
				h.check("deliver", err)
				h.equal("accepted by", got, next.Run)
			})
		}
	}},
	{"M4_ContinueNeedsItemsForTheRunAloneToBeRead", func(h *harness) {
		l, fence := h.startOwned(h.session())
		one, own, two := h.deliver(l.Run), h.deliverAlone(l.Run), h.deliver(l.Run)
		h.unchanged("commits that overlook it", func() {
			c, _ := l.Continue(fence, nil)
			h.is("with none read", h.try(c).Err, store.ErrUnread)
			c, _ = l.Continue(fence, nil, l.Receive(one)...)
			h.is("with one read", h.try(consuming(c, one)).Err, store.ErrUnread)
		})
		c, next := l.Continue(fence, nil, l.Receive(one, own)...)
		h.commit(l, consuming(c, one, own))
		h.equal("inbox of the new run", h.load(next.Run).Inbox, []store.Item{two})
	}},
	{"W4_TheGuardsOfContinueAnswerInTheirOrder", func(h *harness) {
		l, fence := h.startOwned(h.session())
		other := h.start()
		i := h.deliverAlone(l.Run)
		c, _ := l.Continue(fence, nil, l.Receive(i)...)
		h.unchanged("commits that are refused", func() {
			c.Continue.Run = other.Run
			isA[*store.ConflictError](h, "a new run that exists", h.try(consuming(c, i)).Err)
			h.is("unread before that", h.try(c).Err, store.ErrUnread)
			c.Consume, c.ConsumeLast = 1, i.ID+"-not"
			isA[*store.ConflictError](h, "wrong item before unread", h.try(c).Err)
			c.First++
			isA[*store.ConflictError](h, "wrong sequence", h.try(c).Err)
			c.First--
			c.Prev = h.ids.CommitID()
			isA[*store.ConflictError](h, "wrong position", h.try(c).Err)
			c.WorkflowID, c.Continue.WorkflowID = "another", "another"
			isA[*store.WorkflowIDMismatchError](h, "wrong workflow id before that", h.try(c).Err)
			c.Fence.Token = h.ids.Token()
			h.is("wrong fence before that", h.try(c).Err, store.ErrFenced)
			c.CommitID = l.Last
			h.check("applied before everything", h.try(c).Err)
			c.Run = h.runID()
			h.is("unknown before that", h.try(c).Err, store.ErrFenced)
		})
	}},
	{"ContinueWithoutARightNewRunFails", func(h *harness) {
		l, fence := h.startOwned(h.session())
		good := h.startAs(refunds, "")
		h.unchanged("calls that fail", func() {
			for what, change := range map[string]func(*store.Commit){
				"without a new run":      func(c *store.Commit) { c.Continue = nil },
				"of another workflow id": func(c *store.Commit) { c.Continue.WorkflowID = "another" },
				"of another partition": func(c *store.Commit) {
					c.Continue.Run = h.ids.Run(h.clock.Now(), 1)
					if h.store.Partitions() == 1 {
						c.Continue = nil
					}
				},
			} {
				c, _ := l.Continue(fence, nil)
				change(&c)
				if _, err := h.store.Commit(h.ctx, []store.Commit{good.Commit(store.Fence{}, good.Work()...), c}); err == nil {
					h.Errorf("continue %s: got no error", what)
				}
			}
		})
	}},
	{"W3_ContinueSentAgainIsAppliedOnce", func(h *harness) {
		s := h.session()
		l := h.startAs(orders, h.workflowID("order"))
		i := h.deliver(l.Run)
		h.deliver(l.Run)
		c, next := l.Continue(h.own(s, l), nil, l.Receive(i)...)
		c = sending(consuming(c, i), h.newSend(h.runID()))
		want := h.commit(l, c)
		want.Sent = nil // a repeated commit writes nothing and returns no records
		again := func(what string) {
			h.Helper()
			h.unchanged("the same commit "+what, func() { h.equal("answer", h.try(c), want) })
		}
		again("at once")
		fence := h.own(s, next)
		again("when the new run is owned")
		h.consumeAndFinish(next, fence)
		again("when the new run has ended")
		h.clock.Advance(store.DefaultRetention)
		h.purged(1)
		h.gone(next.Run)
		again("when the new run is gone")
	}},
	{"ContinueTellsThoseWhoWatchTheOldRun", func(h *harness) {
		l, fence := h.startOwned(h.session())
		p := h.watch(l.Run, 1)
		next := h.continueRun(l, fence)
		h.watched(p)
		p = h.watch(next.Run, 1)
		h.finish(next, h.own(h.session(), next), event.StatusCompleted)
		h.watched(p)
	}},
	{"K2_ContinueWakesABlockedWait", func(h *harness) {
		s, waiter := h.session(), h.session()
		l, fence := h.startOwned(s)
		h.poll(waiter, orders)
		p := h.wait(waitFor(waiter, orders))
		h.continueRun(l, fence)
		h.equal("claim", h.woken("wait", p).Claim, []int{0})
	}},
}

// deliverAlone delivers a new item with the scope of a single run, which must accept it.
func (h *harness) deliverAlone(run event.RunID) store.Item {
	h.Helper()
	i := h.item()
	i.Scope = store.ScopeRun
	got, err := h.store.Deliver(h.ctx, store.Deliver{Run: run, Item: i})
	h.check("deliver", err)
	h.equal("run that accepted the item", got, run)
	return i
}
