package storetest

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// ownedBy makes a session own a run from its creation.
func (h *harness) ownedBy(s store.SessionID) func(*store.Create) {
	return func(c *store.Create) { c.Owner = &store.Owner{Session: s, Token: h.ids.Token()} }
}

// bear creates a run that the session owns, and returns its log and the request.
func (h *harness) bear(s store.SessionID, change ...func(*store.Create)) (*Log, store.Create) {
	h.Helper()
	return h.bearAs(s, "", change...)
}

// bearAs is bear with a workflow ID.
func (h *harness) bearAs(s store.SessionID, wid string, change ...func(*store.Create)) (*Log, store.Create) {
	h.Helper()
	l := h.newLog(orders, wid)
	c := l.Create()
	h.ownedBy(s)(&c)
	for _, f := range change {
		f(&c)
	}
	h.equal("create", h.create(c), store.Created{Run: l.Run, New: true, Fence: c.Owner.Fence()})
	return l, c
}

func (h *harness) reconcile(s store.SessionID) []store.Owned {
	h.Helper()
	owned, err := h.store.Reconcile(h.ctx, 0, s)
	h.check("reconcile", err)
	return owned
}

// ownerBehaviors test runs that are created with an owner.
var ownerBehaviors = []behavior{
	{"CreateWithAnOwnerIsCreateAndClaim", func(h *harness) {
		wid, s := h.workflowID("order"), h.session()
		l := h.newLog(orders, wid)
		l.Spec.Tags = map[string]string{"customer": "7"}
		l.Spec.Parent, l.Spec.Root = h.runID(), h.runID()
		c := l.Create()
		h.ownedBy(s)(&c)
		c.Priority, c.Retention, c.CreatedBy, c.Status = -3, 90*time.Minute, h.ids.Item(), event.StatusRunning
		fence := store.Fence{Epoch: 1, Token: c.Owner.Token}
		h.equal("answer", h.create(c), store.Created{Run: l.Run, New: true, Fence: fence})
		snap := h.inspect()
		h.equal("run", snap.Runs[l.Run], &store.RunState{
			Record: store.Record{
				Run: l.Run, Chain: l.Run, WorkflowID: wid, Route: orders, Priority: -3, Tags: l.Spec.Tags,
				Parent: l.Spec.Parent, Root: l.Spec.Root, QueueState: store.StateOwned, Owner: s, Fence: fence,
				Status: event.StatusRunning, N: 1, Seq: 1, Last: c.CommitID, CreatedAt: h.clock.Now(),
				Retention: 90 * time.Minute, CreatedBy: c.CreatedBy,
			},
			Frames: [][]byte{c.Frame},
		})
		h.equal("active", snap.Active, map[string]event.RunID{wid: l.Run})
		h.equal("owned", snap.Owned, map[store.SessionID][]event.RunID{s: {l.Run}})
		h.equal("owned, says the heartbeat", h.heartbeat(s).Owned, 1)
		h.equal("owned, says reconcile", h.reconcile(s), []store.Owned{{Run: l.Run, Fence: fence}})
		h.confirm(l.Run, c.CreatedBy)
	}},
	{"K1_ARunThatIsCreatedOwnedIsNotToBeClaimed", func(h *harness) {
		s := h.session()
		waits := h.wait(waitFor(h.session(), orders))
		l, _ := h.bear(s)
		snap := h.inspect()
		h.equal("ready", snap.Ready, map[store.Route][]event.RunID(nil))
		h.equal("wakes", snap.Wakes, map[store.Route]bool(nil))
		h.equal("woken", h.poll(s, orders).Claim, []int(nil))
		other := h.session()
		h.equal("claimed", h.claim(other, 10), []store.ClaimedRun(nil))
		_, err := h.store.ClaimRun(h.ctx, 0, other, h.ids.Token(), l.Run)
		h.is("claim run", err, store.ErrOwned)
		ready := h.start() // the earlier run has set no wake for the Wait
		h.equal("woken by the next run", h.woken("wait", waits).Claim, []int{0})
		h.equal("wakes that are left", h.inspect().Wakes, map[store.Route]bool(nil))
		h.equal("claimed then", runsOf(h.claim(other, 10)), []event.RunID{ready.Run})
	}},
	{"ARunThatIsCreatedOwnedIsCommittedUnderItsFence", func(h *harness) {
		wid, s := h.workflowID("order"), h.session()
		l, c := h.bearAs(s, wid)
		fence := c.Owner.Fence()
		h.unchanged("commits under another fence", func() {
			for _, f := range []store.Fence{{}, {Epoch: 1}, {Epoch: 2, Token: fence.Token}, {Epoch: 1, Token: h.ids.Token()}} {
				h.is("commit", h.try(l.Commit(f, l.Work()...)).Err, store.ErrFenced)
				h.is("release", h.store.Release(h.ctx, l.Run, f), store.ErrFenced)
			}
		})
		h.commit(l, l.Commit(fence, l.Work()...))
		h.finish(l, fence, event.StatusCompleted)
		h.equal("owned", h.heartbeat(s).Owned, 0)
		h.equal("last ended", h.inspect().LastEnded, map[string]event.RunID{wid: l.Run})
		h.startAs(orders, wid)
	}},
	{"ARunThatIsCreatedOwnedMayHaveBegun", func(h *harness) {
		s := h.session()
		l := h.newLog(orders, "")
		c := l.create(event.Event{Type: event.RunStarted, By: "worker"}, event.Event{Type: event.ValueRecorded, Key: "value", Payload: []byte("42")})
		h.ownedBy(s)(&c)
		h.equal("answer", h.create(c), store.Created{Run: l.Run, New: true, Fence: c.Owner.Fence()})
		h.equal("last event", h.record(l.Run).Seq, uint64(3))
		h.fsck()
		h.park(l, c.Owner.Fence(), h.clock.Now().Add(time.Hour))
		h.equal("last event after a commit", h.record(l.Run).Seq, l.State.Seq)
	}},
	{"ARunThatIsCreatedOwnedLeavesItsOwnerLikeAnyOther", func(h *harness) {
		s := h.session()
		parked, c := h.bear(s)
		h.park(parked, c.Owner.Fence(), h.clock.Now().Add(time.Hour))
		h.state(parked.Run, store.StateParked)
		blocked, c := h.bear(s)
		h.block(blocked, c.Owner.Fence())
		h.state(blocked.Run, store.StateBlocked)
		old, c := h.bear(s)
		next := h.continueRun(old, c.Owner.Fence())
		yielded, c := h.bear(s)
		h.commit(yielded, withEffect(yielded.Commit(c.Owner.Fence(), yielded.Work()...), store.EffectYield, ""))
		released, c := h.bear(s)
		h.check("release", h.store.Release(h.ctx, released.Run, c.Owner.Fence()))
		h.equal("fence after the release", h.record(released.Run).Fence, store.Fence{Epoch: 2})
		h.equal("wake", h.inspect().Wakes[orders], true)
		h.equal("owned", h.heartbeat(s).Owned, 0)
		h.equal("claimed", runsOf(h.claim(s, 10)), []event.RunID{next.Run, yielded.Run, released.Run})
	}},
	{"AnItemOfARunThatIsCreatedOwnedIsAnnounced", func(h *harness) {
		s := h.session()
		waits := h.wait(waitFor(s))
		l, c := h.bear(s)
		i := h.deliver(l.Run)
		h.equal("told by the wait", h.woken("wait", waits).Unread, []event.RunID{l.Run})
		h.equal("unread items in the heartbeat", h.heartbeat(s).Unread, []event.RunID{l.Run})
		h.is("park", h.try(withEffect(l.Commit(c.Owner.Fence(), l.Sleep(time.Time{})...), store.EffectPark, "")).Err, store.ErrUnread)
		h.commit(l, consuming(l.Commit(c.Owner.Fence(), l.Receive(i)...), i))
		h.equal("unread items after it was read", h.heartbeat(s).Unread, []event.RunID(nil))
	}},
	{"F2_ARunThatIsCreatedOwnedIsRecoveredWithItsSession", func(h *harness) {
		dead, alive := h.session(), h.session()
		l, c := h.bear(dead)
		h.recoverDead(alive)
		recovered := func(l *Log, times int) {
			h.Helper()
			got := h.record(l.Run)
			h.equal("queue state", got.QueueState, store.StateReady)
			h.equal("owner", got.Owner, store.SessionID(""))
			h.equal("fence", got.Fence, store.Fence{Epoch: uint64(2 * times)})
			h.equal("recoveries", got.Recoveries, times)
		}
		recovered(l, 1)
		h.equal("wake", h.inspect().Wakes[orders], true)
		h.is("late commit", h.try(l.Commit(c.Owner.Fence(), l.Work()...)).Err, store.ErrFenced)
		next := h.session()
		h.own(next, l)
		h.check("close session", h.store.CloseSession(h.ctx, 0, next))
		recovered(l, 2)
	}},
	{"F2_ClosingASessionRecoversWhatItBore", func(h *harness) {
		s := h.session()
		l, _ := h.bear(s)
		h.check("close session", h.store.CloseSession(h.ctx, 0, s))
		got := h.record(l.Run)
		h.equal("queue state", got.QueueState, store.StateReady)
		h.equal("fence", got.Fence, store.Fence{Epoch: 2})
		h.equal("recoveries", got.Recoveries, 1)
		h.equal("claimed", runsOf(h.claim(h.session(), 10)), []event.RunID{l.Run})
	}},
	{"ARunThatASessionWouldHaveToWaitForIsNotCreated", func(h *harness) {
		s := h.session()
		h.unchanged("runs for later", func() {
			for _, later := range []func(*store.Create){
				func(c *store.Create) { c.Delay = time.Millisecond },
				func(c *store.Create) { c.At = h.clock.Now().Add(time.Millisecond) },
				func(c *store.Create) { c.Delay, c.At = time.Hour, h.clock.Now().Add(-time.Hour) },
			} {
				for _, wid := range []string{"", h.workflowID("order")} {
					for _, s := range []store.SessionID{s, "nobody"} {
						c := h.newLog(orders, wid).Create()
						h.ownedBy(s)(&c)
						later(&c)
						h.equal("answer", h.create(c), store.Created{Err: store.ErrNotClaimable})
					}
				}
			}
		})
		h.bearAs(s, h.workflowID("order")) // the refused creates did not take the workflow ID
		h.bear(s, func(c *store.Create) { c.At = h.clock.Now() })
		h.bear(s, func(c *store.Create) { c.At = h.clock.Now().Add(-time.Hour) })
	}},
	{"ARunBehindAnActiveOneIsNotCreatedOwned", func(h *harness) {
		wid, s := h.workflowID("order"), h.session()
		cancels := func(c *store.Create) { c.Active, c.Cancel = store.ActiveCancel, h.item() }
		first, _ := h.bearAs(s, wid, cancels) // the workflow ID has no active run
		second, cancel := h.lineUp(wid)
		h.unchanged("a start behind them", func() {
			for _, s := range []store.SessionID{s, "nobody"} {
				c := h.newLog(orders, wid).Create()
				h.ownedBy(s)(&c)
				cancels(&c)
				h.equal("answer", h.create(c), store.Created{Err: store.ErrNotClaimable})
			}
		})
		h.equal("inbox of the active run", h.load(first.Run).Inbox, []store.Item{cancel})
		h.equal("inbox of the run in line", h.load(second.Run).Inbox, []store.Item(nil))
	}},
	{"ASessionThatIsOverCreatesNothing", func(h *harness) {
		closed, dead := h.session(), h.session()
		h.check("close session", h.store.CloseSession(h.ctx, 0, closed))
		h.recoverDead(h.session())
		h.unchanged("runs of sessions that are over", func() {
			for _, s := range []store.SessionID{"nobody", "", closed, dead} {
				for _, wid := range []string{"", h.workflowID("order")} {
					c := h.newLog(store.Route{Queue: "none", Workflow: "none"}, wid).Create()
					h.ownedBy(s)(&c)
					h.equal("answer", h.create(c), store.Created{Err: store.ErrExpired})
				}
			}
		})
		h.startAs(orders, h.workflowID("order")) // the refused creates did not take the workflow ID
	}},
	{"ASessionOfWhichOnlyTheLeaseIsPastCreatesRuns", func(h *harness) {
		s := h.session()
		h.clock.Advance(10 * ttl)
		l, c := h.bear(s)
		h.heartbeat(s)
		h.commit(l, l.Commit(c.Owner.Fence(), l.Work()...))
	}},
	{"ASessionThatIsBeingRecoveredCreatesNothing", func(h *harness) {
		const many = 1200 // more than stores recover in one call
		dead, alive := h.session(), h.session()
		var starts []store.Create
		for range many {
			c := h.newLog(orders, "").Create()
			h.ownedBy(dead)(&c)
			starts = append(starts, c)
		}
		answers, err := h.store.Create(h.ctx, starts)
		h.check("create", err)
		for i, a := range answers {
			h.equal("answer", a, store.Created{Run: starts[i].Run, New: true, Fence: starts[i].Owner.Fence()})
		}
		for range many {
			h.recoverDead(alive)
			c := h.newLog(orders, "").Create()
			h.ownedBy(dead)(&c)
			h.equal("answer", h.create(c), store.Created{Err: store.ErrExpired})
			if len(h.inspect().Owned[dead]) == 0 {
				break
			}
		}
		snap := h.inspect()
		h.equal("number of runs", len(snap.Runs), many)
		h.equal("runs that became ready", len(snap.Ready[orders]), many)
		for _, c := range starts {
			got := snap.Runs[c.Run].Record
			if got.Recoveries != 1 || got.Fence != (store.Fence{Epoch: 2}) {
				h.Fatalf("run %s: got %d recoveries and fence %v, want 1 and epoch 2", c.Run, got.Recoveries, got.Fence)
			}
		}
	}},
	{"ASessionCreatesRunsOfItsPartitionOnly", func(h *harness) {
		s := h.session()
		c := NewLog(h.ids, h.clock, h.ids.Run(h.clock.Now(), 1), h.newLog(orders, "").Spec).Create()
		h.ownedBy(s)(&c)
		want := store.Created{Run: c.Run, New: true, Fence: c.Owner.Fence()}
		if h.store.Partitions() > 1 {
			want = store.Created{Err: store.ErrExpired}
		}
		h.equal("answer", h.create(c), want)
	}},
	{"C1_CreateWithAnOwnerAsksThePoliciesFirst", func(h *harness) {
		wid, s := h.workflowID("order"), h.session()
		try := func(wid string, s store.SessionID, change func(*store.Create)) store.Created {
			h.Helper()
			c := h.newLog(orders, wid).Create()
			h.ownedBy(s)(&c)
			change(&c)
			return h.create(c)
		}
		running, _ := h.bearAs(s, wid)
		ended := h.ended(named(h.workflowID("ended")))
		h.unchanged("starts that are answered before", func() {
			for _, s := range []store.SessionID{s, "nobody"} {
				for _, delay := range []time.Duration{0, time.Hour} {
					h.equal("under ActiveUse", try(wid, s, func(c *store.Create) { c.Delay = delay }), store.Created{Run: running.Run})
					h.equal("under ActiveFail", try(wid, s, func(c *store.Create) { c.Active, c.Delay = store.ActiveFail, delay }),
						store.Created{Err: &store.ActiveError{WorkflowID: wid, Run: running.Run}})
					h.equal("under FinishedReject", try(ended.Spec.WorkflowID, s, func(c *store.Create) { c.Finished, c.Delay = store.FinishedReject, delay }),
						store.Created{Err: &store.FinishedError{WorkflowID: ended.Spec.WorkflowID, Run: ended.Run, Status: event.StatusCompleted}})
					h.equal("past the deadline", try("", s, func(c *store.Create) { c.Deadline, c.Delay = h.clock.Now().Add(-time.Millisecond), delay }),
						store.Created{Err: store.ErrStale})
				}
			}
		})
		h.bearAs(s, ended.Spec.WorkflowID)
	}},
	{"CreateJudgesEachOwnerByItself", func(h *harness) {
		wid, one, two := h.workflowID("order"), h.session(), h.session()
		var batch []store.Create
		for _, of := range []struct {
			wid string
			s   store.SessionID
		}{{wid, one}, {wid, two}, {"", "nobody"}, {"", two}, {"", ""}} {
			c := h.newLog(orders, of.wid).Create()
			if of.s != "" {
				h.ownedBy(of.s)(&c)
			}
			batch = append(batch, c)
		}
		got, err := h.store.Create(h.ctx, batch)
		h.check("create", err)
		h.equal("answers", got, []store.Created{
			{Run: batch[0].Run, New: true, Fence: batch[0].Owner.Fence()},
			{Run: batch[0].Run},
			{Err: store.ErrExpired},
			{Run: batch[3].Run, New: true, Fence: batch[3].Owner.Fence()},
			{Run: batch[4].Run, New: true},
		})
		h.equal("owned", h.inspect().Owned, map[store.SessionID][]event.RunID{one: {batch[0].Run}, two: {batch[3].Run}})
	}},
	{"ARunThatContinuesIgnoresAnOwner", func(h *harness) {
		s := h.session()
		l, c := h.bear(s)
		commit, next := l.Continue(c.Owner.Fence(), nil)
		h.ownedBy(s)(commit.Continue)
		h.commit(l, commit)
		h.state(next.Run, store.StateReady)
		h.equal("fence", h.record(next.Run).Fence, store.Fence{})
		h.equal("owned", h.heartbeat(s).Owned, 0)
		h.own(s, next)
	}},
}
