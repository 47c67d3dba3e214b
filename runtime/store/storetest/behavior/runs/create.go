package runs

import (
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

var createBehaviors = []behavior{
	{"C1_CreateSentAgainIsTheSameRun", func(h *harness) {
		l := h.NewLog(suite.Orders, h.WorkflowID("order"))
		c := l.Create()
		want := store.Created{Run: l.Run, New: true}
		h.Equal("answer", h.Create(c), want)
		h.Unchanged("the same create", func() { h.Equal("second answer", h.Create(c), want) })
	}},
	{"C1_CreateSentAgainIsAskedBeforeThePolicy", func(h *harness) {
		l := h.StartAs(suite.Orders, h.WorkflowID("order"))
		for _, p := range []store.ActivePolicy{store.ActiveFail, store.ActiveCancel, store.ActiveUse, store.ActiveQueue, store.ActiveLatest} {
			c := l.CreateAgain()
			c.Active, c.Finished = p, store.FinishedReject
			h.Unchanged("the create", func() {
				h.Equal(fmt.Sprintf("answer under policy %d", p), h.Create(c), store.Created{Run: l.Run, New: true})
			})
		}
	}},
	{"C1_CreateSentAgainAfterTheRunEndedIsTheSameRun", func(h *harness) {
		l := h.NewLog(suite.Orders, h.WorkflowID("order"))
		c := l.Create()
		c.Finished = store.FinishedReject
		h.Create(c)
		h.Finish(l, h.Own(h.Session(), l), event.StatusCompleted)
		h.Unchanged("the same create", func() { h.Equal("answer", h.Create(c), store.Created{Run: l.Run, New: true}) })
	}},
	{"CreateKeepsWhatItIsGiven", func(h *harness) {
		l := h.NewLog(suite.Orders, h.WorkflowID("order"))
		l.Spec.Tags = map[string]string{"customer": "7", "region": ""}
		l.Spec.Parent, l.Spec.Root = h.RunID(), h.RunID()
		c := l.Create()
		c.Priority, c.Retention = -3, 90*time.Minute
		h.Create(c)
		got := h.Load(l.Run)
		h.Equal("record", got.Record, store.Record{
			Run: l.Run, Chain: l.Run, WorkflowID: l.Spec.WorkflowID, Route: suite.Orders, Priority: -3,
			Tags: l.Spec.Tags, Parent: l.Spec.Parent, Root: l.Spec.Root,
			QueueState: store.StateReady, Status: event.StatusPending, N: 1, Seq: 1, Last: c.CommitID, CreatedAt: h.Clock.Now(),
			Retention: 90 * time.Minute,
		})
		h.Equal("frames", got.Frames, [][]byte{c.Frame})
		h.Equal("inbox", got.Inbox, []store.Item(nil))
	}},
	{"CreateKeepsTheStatusThatItIsGiven", func(h *harness) {
		l := h.NewLog(suite.Orders, "")
		c := l.Create()
		c.Status, c.Delay = event.StatusHeld, time.Hour
		h.Create(c)
		h.Equal("status", h.Load(l.Run).Record.Status, event.StatusHeld)
	}},
	{"CreateJudgesEachRunByItself", func(h *harness) {
		wid := h.WorkflowID("order")
		one, two, three := h.NewLog(suite.Orders, wid), h.NewLog(suite.Orders, wid), h.NewLog(suite.Orders, "")
		batch := []store.Create{one.Create(), two.Create(), three.Create(), one.CreateAgain()}
		batch[1].Active = store.ActiveFail
		got, err := h.Store.Create(h.Ctx, batch)
		h.Check("create", err)
		h.Equal("answers", got, []store.Created{
			{Run: one.Run, New: true},
			{Err: &store.ActiveError{WorkflowID: wid, Run: one.Run}},
			{Run: three.Run, New: true},
			{Run: one.Run, New: true},
		})
	}},
	{"CreateOfNothingAnswersNothing", func(h *harness) {
		got, err := h.Store.Create(h.Ctx, nil)
		h.Check("create", err)
		h.Equal("number of answers", len(got), 0)
	}},
	{"C1_CreateUnderActiveUseAnswersTheActiveRun", func(h *harness) {
		wid := h.WorkflowID("order")
		first := h.StartAs(suite.Orders, wid)
		second := h.NewLog(suite.Orders, wid).Create()
		h.Unchanged("a start of an active workflow id", func() {
			h.Equal("answer", h.Create(second), store.Created{Run: first.Run})
		})
	}},
	{"C1_CreateUnderActiveFailNamesTheActiveRun", func(h *harness) {
		wid := h.WorkflowID("order")
		first := h.StartAs(suite.Orders, wid)
		second := h.NewLog(suite.Orders, wid).Create()
		second.Active = store.ActiveFail
		h.Unchanged("a refused start", func() {
			e := suite.As[*store.ActiveError](h.Harness, "create", h.Create(second).Err)
			h.Equal("error", *e, store.ActiveError{WorkflowID: wid, Run: first.Run})
		})
	}},
	{"CreateOfAFinishedWorkflowIDIsAllowedByDefault", func(h *harness) {
		wid := h.WorkflowID("order")
		for _, status := range []event.Status{event.StatusCompleted, event.StatusFailed, event.StatusCanceled} {
			l := h.StartAs(suite.Orders, wid)
			h.Finish(l, h.Own(h.Session(), l), status)
		}
		h.StartAs(suite.Orders, wid)
	}},
	{"CreateUnderFinishedAllowFailureRefusesOnlyAfterCompletion", func(h *harness) {
		wid := h.WorkflowID("order")
		retry := func(c *store.Create) { c.Finished = store.FinishedAllowFailure }
		var last *suite.Log
		for _, status := range []event.Status{event.StatusFailed, event.StatusCanceled, event.StatusCompleted} {
			last = h.StartAs(suite.Orders, wid, retry)
			h.Finish(last, h.Own(h.Session(), last), status)
		}
		again := h.NewLog(suite.Orders, wid).Create()
		retry(&again)
		h.Unchanged("a refused start", func() {
			e := suite.As[*store.FinishedError](h.Harness, "create", h.Create(again).Err)
			h.Equal("error", *e, store.FinishedError{WorkflowID: wid, Run: last.Run, Status: event.StatusCompleted})
		})
	}},
	{"CreateUnderFinishedRejectRefusesAfterAnyEnd", func(h *harness) {
		for _, status := range []event.Status{event.StatusFailed, event.StatusCanceled, event.StatusCompleted} {
			wid := h.WorkflowID("order-" + string(status))
			last := h.StartAs(suite.Orders, wid)
			h.Finish(last, h.Own(h.Session(), last), status)
			again := h.NewLog(suite.Orders, wid).Create()
			again.Finished = store.FinishedReject
			h.Unchanged("a refused start", func() {
				e := suite.As[*store.FinishedError](h.Harness, "create", h.Create(again).Err)
				h.Equal("error", *e, store.FinishedError{WorkflowID: wid, Run: last.Run, Status: status})
			})
		}
	}},
	{"CreateLooksAtThePolicyForFinishedOnlyIfNoneIsActive", func(h *harness) {
		wid := h.WorkflowID("order")
		old := h.StartAs(suite.Orders, wid)
		h.Finish(old, h.Own(h.Session(), old), event.StatusCompleted)
		now := h.StartAs(suite.Orders, wid)
		c := h.NewLog(suite.Orders, wid).Create()
		c.Finished = store.FinishedReject
		h.Equal("answer", h.Create(c), store.Created{Run: now.Run})
	}},
	{"CreateParksADelayedRunUntilTheLaterOfDelayAndAt", func(h *harness) {
		now := h.Clock.Now()
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
			l := h.Start(func(r *store.Create) { r.Delay, r.At = c.delay, c.at })
			got := h.Record(l.Run)
			h.Equal("queue state", got.QueueState, store.StateParked)
			h.Equal("due", got.Due, c.want)
			h.Equal("timer", h.Inspect().Timers[l.Run], c.want)
		}
		h.Equal("claimed", h.Claim(h.Session(), 10), []store.ClaimedRun(nil))
	}},
	{"CreateWithATimeThatIsPastIsReadyNow", func(h *harness) {
		a := h.Start(func(c *store.Create) { c.At = h.Clock.Now() })
		b := h.Start(func(c *store.Create) { c.At = h.Clock.Now().Add(-time.Hour) })
		h.State(a.Run, store.StateReady)
		h.State(b.Run, store.StateReady)
		h.Equal("timers", h.Inspect().Timers, map[event.RunID]time.Time(nil))
	}},
}
