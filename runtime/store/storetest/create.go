package storetest

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// canceling changes a start to cancel the active run of its workflow ID.
func canceling(c *store.Create) {
	c.Active = store.ActiveCancel
}

var createBehaviors = []behavior{
	{"C1_CreateSentAgainIsTheSameRun", func(h *harness) {
		l := h.newLog(orders, h.workflowID("order"))
		c := l.Create()
		want := store.Created{Run: l.Run, New: true}
		h.equal("answer", h.create(c), want)
		h.unchanged("the same create", func() { h.equal("second answer", h.create(c), want) })
	}},
	{"C1_CreateSentAgainIsAskedBeforeThePolicy", func(h *harness) {
		l := h.startAs(orders, h.workflowID("order"))
		for _, p := range []store.ActivePolicy{store.ActiveFail, store.ActiveCancel, store.ActiveUse, store.ActiveQueue, store.ActiveLatest} {
			c := l.createAgain()
			c.Active, c.Finished = p, store.FinishedReject
			h.unchanged("the create", func() {
				h.equal(fmt.Sprintf("answer under policy %d", p), h.create(c), store.Created{Run: l.Run, New: true})
			})
		}
	}},
	{"C1_CreateSentAgainAfterTheRunEndedIsTheSameRun", func(h *harness) {
		l := h.newLog(orders, h.workflowID("order"))
		c := l.Create()
		c.Finished = store.FinishedReject
		h.create(c)
		h.finish(l, h.own(h.session(), l), event.StatusCompleted)
		h.unchanged("the same create", func() { h.equal("answer", h.create(c), store.Created{Run: l.Run, New: true}) })
	}},
	{"CreateKeepsWhatItIsGiven", func(h *harness) {
		l := h.newLog(orders, h.workflowID("order"))
		l.Spec.Tags = map[string]string{"customer": "7", "region": ""}
		l.Spec.Parent, l.Spec.Root = h.runID(), h.runID()
		c := l.Create()
		c.Priority, c.Retention = -3, 90*time.Minute
		h.create(c)
		got := h.load(l.Run)
		h.equal("record", got.Record, store.Record{
			Run: l.Run, Chain: l.Run, WorkflowID: l.Spec.WorkflowID, Route: orders, Priority: -3,
			Tags: l.Spec.Tags, Parent: l.Spec.Parent, Root: l.Spec.Root,
			QueueState: store.StateReady, Status: event.StatusPending, N: 1, Seq: 1, Last: c.CommitID, CreatedAt: h.clock.Now(),
			Retention: 90 * time.Minute,
		})
		h.equal("frames", got.Frames, [][]byte{c.Frame})
		h.equal("inbox", got.Inbox, []store.Item(nil))
	}},
	{"CreateKeepsTheStatusThatItIsGiven", func(h *harness) {
		l := h.newLog(orders, "")
		c := l.Create()
		c.Status, c.Delay = event.StatusHeld, time.Hour
		h.create(c)
		h.equal("status", h.load(l.Run).Record.Status, event.StatusHeld)
	}},
	{"CreateJudgesEachRunByItself", func(h *harness) {
		wid := h.workflowID("order")
		one, two, three := h.newLog(orders, wid), h.newLog(orders, wid), h.newLog(orders, "")
		batch := []store.Create{one.Create(), two.Create(), three.Create(), one.createAgain()}
		batch[1].Active = store.ActiveFail
		got, err := h.store.Create(h.ctx, batch)
		h.check("create", err)
		h.equal("answers", got, []store.Created{
			{Run: one.Run, New: true},
			{Err: &store.ActiveError{WorkflowID: wid, Run: one.Run}},
			{Run: three.Run, New: true},
			{Run: one.Run, New: true},
		})
	}},
	{"CreateOfNothingAnswersNothing", func(h *harness) {
		got, err := h.store.Create(h.ctx, nil)
		h.check("create", err)
		h.equal("number of answers", len(got), 0)
	}},
	{"C1_CreateUnderActiveUseAnswersTheActiveRun", func(h *harness) {
		wid := h.workflowID("order")
		first := h.startAs(orders, wid)
		second := h.newLog(orders, wid).Create()
		h.unchanged("a start of an active workflow id", func() {
			h.equal("answer", h.create(second), store.Created{Run: first.Run})
		})
	}},
	{"C1_CreateUnderActiveFailNamesTheActiveRun", func(h *harness) {
		wid := h.workflowID("order")
		first := h.startAs(orders, wid)
		second := h.newLog(orders, wid).Create()
		second.Active = store.ActiveFail
		h.unchanged("a refused start", func() {
			e := as[*store.ActiveError](h, "create", h.create(second).Err)
			h.equal("error", *e, store.ActiveError{WorkflowID: wid, Run: first.Run})
		})
	}},
	{"CreateOfAFinishedWorkflowIDIsAllowedByDefault", func(h *harness) {
		wid := h.workflowID("order")
		for _, status := range []event.Status{event.StatusCompleted, event.StatusFailed, event.StatusCanceled} {
			l := h.startAs(orders, wid)
			h.finish(l, h.own(h.session(), l), status)
		}
		h.startAs(orders, wid)
	}},
	{"CreateUnderFinishedAllowFailureRefusesOnlyAfterCompletion", func(h *harness) {
		wid := h.workflowID("order")
		retry := func(c *store.Create) { c.Finished = store.FinishedAllowFailure }
		var last *Log
		for _, status := range []event.Status{event.StatusFailed, event.StatusCanceled, event.StatusCompleted} {
			last = h.startAs(orders, wid, retry)
			h.finish(last, h.own(h.session(), last), status)
		}
		again := h.newLog(orders, wid).Create()
		retry(&again)
		h.unchanged("a refused start", func() {
			e := as[*store.FinishedError](h, "create", h.create(again).Err)
			h.equal("error", *e, store.FinishedError{WorkflowID: wid, Run: last.Run, Status: event.StatusCompleted})
		})
	}},
	{"CreateUnderFinishedRejectRefusesAfterAnyEnd", func(h *harness) {
		for _, status := range []event.Status{event.StatusFailed, event.StatusCanceled, event.StatusCompleted} {
			wid := h.workflowID("order-" + string(status))
			last := h.startAs(orders, wid)
			h.finish(last, h.own(h.session(), last), status)
			again := h.newLog(orders, wid).Create()
			again.Finished = store.FinishedReject
			h.unchanged("a refused start", func() {
				e := as[*store.FinishedError](h, "create", h.create(again).Err)
				h.equal("error", *e, store.FinishedError{WorkflowID: wid, Run: last.Run, Status: status})
			})
		}
	}},
	{"CreateLooksAtThePolicyForFinishedOnlyIfNoneIsActive", func(h *harness) {
		wid := h.workflowID("order")
		old := h.startAs(orders, wid)
		h.finish(old, h.own(h.session(), old), event.StatusCompleted)
		now := h.startAs(orders, wid)
		c := h.newLog(orders, wid).Create()
		c.Finished = store.FinishedReject
		h.equal("answer", h.create(c), store.Created{Run: now.Run})
	}},
	{"CreateParksADelayedRunUntilTheLaterOfDelayAndAt", func(h *harness) {
		now := h.clock.Now()
		for _, c := range []struct {
			delay time.Duration
			at    time.Time
			want  time.Time
		}{
			{delay: time.Minute, want: now.Add(time.Minute)},
			{at: now.Add(time.Hour), want: now.Add(time.Hour)},
			{delay: time.Minute, at: now.Add(time.Hour), want: now.Add(time.Hour)},
			{delay: 2 * time.Hour, at: now.Add(time.Hour), want: now.Add(2 * time.Hour)},
			{delay: time.Minute, at: now.Add(-time.Hour), want: now.Add(time.Minute)},
		} {
			l := h.start(func(r *store.Create) { r.Delay, r.At = c.delay, c.at })
			got := h.record(l.Run)
			h.equal("queue state", got.QueueState, store.StateParked)
			h.equal("due", got.Due, c.want)
			h.equal("timer", h.inspect().Timers[l.Run], c.want)
		}
		h.equal("claimed", h.claim(h.session(), 10), []store.ClaimedRun(nil))
	}},
	{"CreateWithATimeThatIsPastIsReadyNow", func(h *harness) {
		a := h.start(func(c *store.Create) { c.At = h.clock.Now() })
		b := h.start(func(c *store.Create) { c.At = h.clock.Now().Add(-time.Hour) })
		h.state(a.Run, store.StateReady)
		h.state(b.Run, store.StateReady)
		h.equal("timers", h.inspect().Timers, map[event.RunID]time.Time(nil))
	}},
}

// createAgain returns another request, with a first frame of its own, for a run that has been
// created.
func (l *Log) createAgain() store.Create {
	return NewLog(l.ids, l.clock, l.Run, l.Spec).Create()
}
