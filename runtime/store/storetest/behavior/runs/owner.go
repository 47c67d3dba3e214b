package runs

import (
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// ownerBehaviors test runs that are created with an owner.
var ownerBehaviors = []behavior{
	{"CreateWithAnOwnerIsCreateAndClaim", func(h *harness) {
		wid, s := h.WorkflowID("order"), h.Session()
		l := h.NewLog(suite.Orders, wid)
		l.Spec.Tags = map[string]string{"customer": "7"}
		l.Spec.Parent, l.Spec.Root = h.RunID(), h.RunID()
		c := l.Create()
		h.OwnedBy(s)(&c)
		c.Priority, c.Retention, c.CreatedBy, c.Status = -3, 90*time.Minute, h.IDs.Item(), event.StatusRunning
		fence := store.Fence{Epoch: 1, Token: c.Owner.Token}
		h.Equal("answer", h.Create(c), store.Created{Run: l.Run, New: true, Fence: fence})
		snap := h.Inspect()
		h.Equal("run", snap.Runs[l.Run], &store.RunState{
			Record: store.Record{
				Run: l.Run, Chain: l.Run, WorkflowID: wid, Route: suite.Orders, Priority: -3, Tags: l.Spec.Tags,
				Parent: l.Spec.Parent, Root: l.Spec.Root, QueueState: store.StateOwned, Owner: s, Fence: fence,
				Status: event.StatusRunning, N: 1, Seq: 1, Last: c.CommitID, CreatedAt: h.Clock.Now(),
				Retention: 90 * time.Minute, CreatedBy: c.CreatedBy,
			},
			Frames: [][]byte{c.Frame},
		})
		h.Equal("active", snap.Active, map[string]event.RunID{wid: l.Run})
		h.Equal("owned", snap.Owned, map[store.SessionID][]event.RunID{s: {l.Run}})
		h.Equal("owned, says the heartbeat", h.Heartbeat(s).Owned, 1)
		h.Equal("owned, says reconcile", h.Reconcile(s), []store.Owned{{Run: l.Run, Fence: fence}})
		h.Confirm(l.Run, c.CreatedBy)
	}},
	{"K1_ARunThatIsCreatedOwnedIsNotToBeClaimed", func(h *harness) {
		s := h.Session()
		waits := h.Wait(suite.WaitFor(h.Session(), suite.Orders))
		l, _ := h.Bear(s)
		snap := h.Inspect()
		h.Equal("ready", snap.Ready, map[store.Route][]event.RunID(nil))
		h.Equal("wakes", snap.Wakes, map[store.Route]bool(nil))
		h.Equal("woken", h.Poll(s, suite.Orders).Claim, []int(nil))
		other := h.Session()
		h.Equal("claimed", h.Claim(other, 10), []store.ClaimedRun(nil))
		_, err := h.Store.ClaimRun(h.Ctx, 0, other, h.IDs.Token(), l.Run)
		h.Is("claim run", err, store.ErrOwned)
		ready := h.Start() // the creation of the first run has set no wake that could end the Wait
		h.Equal("woken by the next run", h.Woken("wait", waits).Claim, []int{0})
		h.Equal("wakes that are left", h.Inspect().Wakes, map[store.Route]bool(nil))
		h.Equal("claimed then", suite.RunsOf(h.Claim(other, 10)), []event.RunID{ready.Run})
	}},
	{"ARunThatIsCreatedOwnedIsCommittedUnderItsFence", func(h *harness) {
		wid, s := h.WorkflowID("order"), h.Session()
		l, c := h.BearAs(s, wid)
		fence := c.Owner.Fence()
		h.Unchanged("commits under another fence", func() {
			for _, f := range []store.Fence{{}, {Epoch: 1}, {Epoch: 2, Token: fence.Token}, {Epoch: 1, Token: h.IDs.Token()}} {
				h.Is("commit", h.Try(l.Commit(f, l.Work()...)).Err, store.ErrFenced)
				h.Is("release", h.Store.Release(h.Ctx, l.Run, f), store.ErrFenced)
			}
		})
		h.Commit(l, l.Commit(fence, l.Work()...))
		h.Finish(l, fence, event.StatusCompleted)
		h.Equal("owned", h.Heartbeat(s).Owned, 0)
		h.Equal("last ended", h.Inspect().LastEnded, map[string]event.RunID{wid: l.Run})
		h.StartAs(suite.Orders, wid)
	}},
	{"ARunThatIsCreatedOwnedMayHaveBegun", func(h *harness) {
		s := h.Session()
		l := h.NewLog(suite.Orders, "")
		c := l.CreateWith(event.Event{Type: event.RunStarted, By: "worker"}, event.Event{Type: event.ValueRecorded, Key: "value", Payload: []byte("42")})
		h.OwnedBy(s)(&c)
		h.Equal("answer", h.Create(c), store.Created{Run: l.Run, New: true, Fence: c.Owner.Fence()})
		h.Equal("last event", h.Record(l.Run).Seq, uint64(3))
		h.Fsck()
		h.Park(l, c.Owner.Fence(), h.Clock.Now().Add(time.Hour))
		h.Equal("last event after a commit", h.Record(l.Run).Seq, l.State.Seq)
	}},
	{"ARunThatIsCreatedOwnedLeavesItsOwnerLikeAnyOther", func(h *harness) {
		s := h.Session()
		parked, c := h.Bear(s)
		h.Park(parked, c.Owner.Fence(), h.Clock.Now().Add(time.Hour))
		h.State(parked.Run, store.StateParked)
		blocked, c := h.Bear(s)
		h.Block(blocked, c.Owner.Fence())
		h.State(blocked.Run, store.StateBlocked)
		old, c := h.Bear(s)
		next := h.ContinueRun(old, c.Owner.Fence())
		yielded, c := h.Bear(s)
		h.Commit(yielded, suite.WithEffect(yielded.Commit(c.Owner.Fence(), yielded.Work()...), store.EffectYield, ""))
		released, c := h.Bear(s)
		h.Check("release", h.Store.Release(h.Ctx, released.Run, c.Owner.Fence()))
		h.Equal("fence after the release", h.Record(released.Run).Fence, store.Fence{Epoch: 2})
		h.Equal("wake", h.Inspect().Wakes[suite.Orders], true)
		h.Equal("owned", h.Heartbeat(s).Owned, 0)
		h.Equal("claimed", suite.RunsOf(h.Claim(s, 10)), []event.RunID{next.Run, yielded.Run, released.Run})
	}},
	{"AnItemOfARunThatIsCreatedOwnedIsAnnounced", func(h *harness) {
		s := h.Session()
		waits := h.Wait(suite.WaitFor(s))
		l, c := h.Bear(s)
		i := h.Deliver(l.Run)
		h.Equal("told by the wait", h.Woken("wait", waits).Unread, []event.RunID{l.Run})
		h.Equal("unread items in the heartbeat", h.Heartbeat(s).Unread, []event.RunID{l.Run})
		h.Is("park", h.Try(suite.WithEffect(l.Commit(c.Owner.Fence(), l.Sleep(time.Time{})...), store.EffectPark, "")).Err, store.ErrUnread)
		h.Commit(l, suite.Consuming(l.Commit(c.Owner.Fence(), l.Receive(i)...), i))
		h.Equal("unread items after it was read", h.Heartbeat(s).Unread, []event.RunID(nil))
	}},
	{"F2_ARunThatIsCreatedOwnedIsRecoveredWithItsSession", func(h *harness) {
		dead, alive := h.Session(), h.Session()
		l, c := h.Bear(dead)
		h.RecoverDead(alive)
		recovered := func(l *suite.Log, times int) {
			h.Helper()
			got := h.Record(l.Run)
			h.Equal("queue state", got.QueueState, store.StateReady)
			h.Equal("owner", got.Owner, store.SessionID(""))
			h.Equal("fence", got.Fence, store.Fence{Epoch: uint64(2 * times)})
			h.Equal("recoveries", got.Recoveries, times)
		}
		recovered(l, 1)
		h.Equal("wake", h.Inspect().Wakes[suite.Orders], true)
		h.Is("late commit", h.Try(l.Commit(c.Owner.Fence(), l.Work()...)).Err, store.ErrFenced)
		next := h.Session()
		h.Own(next, l)
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, next))
		recovered(l, 2)
	}},
	{"F2_ClosingASessionRecoversWhatItBore", func(h *harness) {
		s := h.Session()
		l, _ := h.Bear(s)
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, s))
		got := h.Record(l.Run)
		h.Equal("queue state", got.QueueState, store.StateReady)
		h.Equal("fence", got.Fence, store.Fence{Epoch: 2})
		h.Equal("recoveries", got.Recoveries, 1)
		h.Equal("claimed", suite.RunsOf(h.Claim(h.Session(), 10)), []event.RunID{l.Run})
	}},
	{"ARunThatASessionWouldHaveToWaitForIsNotCreated", func(h *harness) {
		s := h.Session()
		h.Unchanged("runs for later", func() {
			for _, later := range []func(*store.Create){
				func(c *store.Create) { c.Delay = time.Millisecond },
				func(c *store.Create) { c.At = h.Clock.Now().Add(time.Millisecond) },
				func(c *store.Create) { c.Delay, c.At = time.Hour, h.Clock.Now().Add(-time.Hour) },
			} {
				for _, wid := range []string{"", h.WorkflowID("order")} {
					for _, s := range []store.SessionID{s, "nobody"} {
						c := h.NewLog(suite.Orders, wid).Create()
						h.OwnedBy(s)(&c)
						later(&c)
						h.Equal("answer", h.Create(c), store.Created{Err: store.ErrNotClaimable})
					}
				}
			}
		})
		h.BearAs(s, h.WorkflowID("order")) // the refused creates have not taken the workflow ID
		h.Bear(s, func(c *store.Create) { c.At = h.Clock.Now() })
		h.Bear(s, func(c *store.Create) { c.At = h.Clock.Now().Add(-time.Hour) })
	}},
	{"ARunBehindAnActiveOneIsNotCreatedOwned", func(h *harness) {
		wid, s := h.WorkflowID("order"), h.Session()
		cancels := func(c *store.Create) { c.Active, c.Cancel = store.ActiveCancel, h.Item() }
		first, _ := h.BearAs(s, wid, cancels) // accepted, because the workflow ID has no active run
		second, cancel := h.LineUp(wid)
		h.Unchanged("a start behind them", func() {
			for _, s := range []store.SessionID{s, "nobody"} {
				c := h.NewLog(suite.Orders, wid).Create()
				h.OwnedBy(s)(&c)
				cancels(&c)
				h.Equal("answer", h.Create(c), store.Created{Err: store.ErrNotClaimable})
			}
		})
		h.Equal("inbox of the active run", h.Load(first.Run).Inbox, []store.Item{cancel})
		h.Equal("inbox of the run in line", h.Load(second.Run).Inbox, []store.Item(nil))
	}},
	{"ASessionThatIsOverCreatesNothing", func(h *harness) {
		closed, dead := h.Session(), h.Session()
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, closed))
		h.RecoverDead(h.Session())
		h.Unchanged("runs of sessions that are over", func() {
			for _, s := range []store.SessionID{"nobody", "", closed, dead} {
				for _, wid := range []string{"", h.WorkflowID("order")} {
					c := h.NewLog(store.Route{Queue: "none", Workflow: "none"}, wid).Create()
					h.OwnedBy(s)(&c)
					h.Equal("answer", h.Create(c), store.Created{Err: store.ErrExpired})
				}
			}
		})
		h.StartAs(suite.Orders, h.WorkflowID("order")) // the refused creates have not taken the workflow ID
	}},
	{"ASessionOfWhichOnlyTheLeaseIsPastCreatesRuns", func(h *harness) {
		s := h.Session()
		h.Clock.Advance(10 * suite.TTL)
		l, c := h.Bear(s)
		h.Heartbeat(s)
		h.Commit(l, l.Commit(c.Owner.Fence(), l.Work()...))
	}},
	{"ASessionThatIsBeingRecoveredCreatesNothing", func(h *harness) {
		const many = 1200 // more runs than a store recovers in one call
		dead, alive := h.Session(), h.Session()
		var starts []store.Create
		for range many {
			c := h.NewLog(suite.Orders, "").Create()
			h.OwnedBy(dead)(&c)
			starts = append(starts, c)
		}
		answers, err := h.Store.Create(h.Ctx, starts)
		h.Check("create", err)
		for i, a := range answers {
			h.Equal("answer", a, store.Created{Run: starts[i].Run, New: true, Fence: starts[i].Owner.Fence()})
		}
		for range many {
			h.RecoverDead(alive)
			c := h.NewLog(suite.Orders, "").Create()
			h.OwnedBy(dead)(&c)
			h.Equal("answer", h.Create(c), store.Created{Err: store.ErrExpired})
			if len(h.Inspect().Owned[dead]) == 0 {
				break
			}
		}
		snap := h.Inspect()
		h.Equal("number of runs", len(snap.Runs), many)
		h.Equal("runs that became ready", len(snap.Ready[suite.Orders]), many)
		for _, c := range starts {
			got := snap.Runs[c.Run].Record
			if got.Recoveries != 1 || got.Fence != (store.Fence{Epoch: 2}) {
				h.Fatalf("run %s: got %d recoveries and fence %v, want 1 and epoch 2", c.Run, got.Recoveries, got.Fence)
			}
		}
	}},
	{"ASessionCreatesRunsOfItsPartitionOnly", func(h *harness) {
		s := h.Session()
		c := suite.NewLog(h.IDs, h.Clock, h.IDs.Run(h.Clock.Now(), 1), h.NewLog(suite.Orders, "").Spec).Create()
		h.OwnedBy(s)(&c)
		want := store.Created{Run: c.Run, New: true, Fence: c.Owner.Fence()}
		if h.Store.Partitions() > 1 {
			want = store.Created{Err: store.ErrExpired}
		}
		h.Equal("answer", h.Create(c), want)
	}},
	{"C1_CreateWithAnOwnerAsksThePoliciesFirst", func(h *harness) {
		wid, s := h.WorkflowID("order"), h.Session()
		try := func(wid string, s store.SessionID, change func(*store.Create)) store.Created {
			h.Helper()
			c := h.NewLog(suite.Orders, wid).Create()
			h.OwnedBy(s)(&c)
			change(&c)
			return h.Create(c)
		}
		running, _ := h.BearAs(s, wid)
		ended := h.Ended(suite.Named(h.WorkflowID("ended")))
		h.Unchanged("starts that are answered before", func() {
			for _, s := range []store.SessionID{s, "nobody"} {
				for _, delay := range []time.Duration{0, time.Hour} {
					h.Equal("under ActiveUse", try(wid, s, func(c *store.Create) { c.Delay = delay }), store.Created{Run: running.Run})
					h.Equal("under ActiveFail", try(wid, s, func(c *store.Create) { c.Active, c.Delay = store.ActiveFail, delay }),
						store.Created{Err: &store.ActiveError{WorkflowID: wid, Run: running.Run}})
					h.Equal("under FinishedReject", try(ended.Spec.WorkflowID, s, func(c *store.Create) { c.Finished, c.Delay = store.FinishedReject, delay }),
						store.Created{Err: &store.FinishedError{WorkflowID: ended.Spec.WorkflowID, Run: ended.Run, Status: event.StatusCompleted}})
					h.Equal("past the deadline", try("", s, func(c *store.Create) { c.Deadline, c.Delay = h.Clock.Now().Add(-time.Millisecond), delay }),
						store.Created{Err: store.ErrStale})
				}
			}
		})
		h.BearAs(s, ended.Spec.WorkflowID)
	}},
	{"CreateJudgesEachOwnerByItself", func(h *harness) {
		wid, one, two := h.WorkflowID("order"), h.Session(), h.Session()
		var batch []store.Create
		for _, of := range []struct {
			wid string
			s   store.SessionID
		}{{wid, one}, {wid, two}, {"", "nobody"}, {"", two}, {"", ""}} {
			c := h.NewLog(suite.Orders, of.wid).Create()
			if of.s != "" {
				h.OwnedBy(of.s)(&c)
			}
			batch = append(batch, c)
		}
		got, err := h.Store.Create(h.Ctx, batch)
		h.Check("create", err)
		h.Equal("answers", got, []store.Created{
			{Run: batch[0].Run, New: true, Fence: batch[0].Owner.Fence()},
			{Run: batch[0].Run},
			{Err: store.ErrExpired},
			{Run: batch[3].Run, New: true, Fence: batch[3].Owner.Fence()},
			{Run: batch[4].Run, New: true},
		})
		h.Equal("owned", h.Inspect().Owned, map[store.SessionID][]event.RunID{one: {batch[0].Run}, two: {batch[3].Run}})
	}},
	{"ARunThatContinuesIgnoresAnOwner", func(h *harness) {
		s := h.Session()
		l, c := h.Bear(s)
		commit, next := l.Continue(c.Owner.Fence(), nil)
		h.OwnedBy(s)(commit.Continue)
		h.Commit(l, commit)
		h.State(next.Run, store.StateReady)
		h.Equal("fence", h.Record(next.Run).Fence, store.Fence{})
		h.Equal("owned", h.Heartbeat(s).Owned, 0)
		h.Own(s, next)
	}},
}
