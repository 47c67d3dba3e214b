package operators

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// The failures of the tests, one of each kind. Two failed runs of different workflows may have the
// same text but never the same group.
var (
	declined = store.FailureGroup{Group: "f1-0a", Kind: store.FailureKindFailed, Workflow: suite.Orders.Workflow, Step: "charge", Text: "declined: §"}
	busy     = store.FailureGroup{Group: "f1-0b", Kind: store.FailureKindRetrying, Workflow: suite.Orders.Workflow, Step: "ship", Text: "503"}
	misfit   = store.FailureGroup{Group: "f1-0c", Kind: store.FailureKindBlocked, Workflow: suite.Refunds.Workflow, Text: "charge v reserve"}
)

// labeled returns a commit that sets the failure label of its run.
func labeled(c store.Commit, t store.FailureGroup) store.Commit {
	c.FailureGroup = &t
	return c
}

// cleared returns a commit that removes the failure label of its run.
func cleared(c store.Commit) store.Commit { return labeled(c, store.FailureGroup{}) }

// startFailing starts a run that a session owns, with a failure label.
func (h *harness) startFailing(s store.SessionID, t store.FailureGroup) (*suite.Log, store.Fence) {
	h.Helper()
	l, fence := h.StartOwned(s)
	h.Commit(l, labeled(l.Commit(fence, l.Work()...), t))
	return l, fence
}

// group fails the test unless the record of the run has the failure group want, and lists by
// failure group agree. An empty want means that the run has no failure.
func (h *harness) group(run event.RunID, want string) {
	h.Helper()
	h.Equal("group of the run", h.Record(run).Group, want)
	if !suite.Has[store.Lister](h.Store) {
		return
	}
	h.Equal("in trouble", slices.Contains(h.List(store.Query{Failing: true}), run), want != "")
	for _, t := range []store.FailureGroup{declined, busy, misfit} {
		h.Equal("in group "+t.Group, slices.Contains(h.List(store.Query{Group: t.Group}), run), want == t.Group)
	}
}

// failureGroups returns all failure groups that match, read page by page.
func (h *harness) failureGroups(q store.FailureGroupQuery) (all []store.FailureGroupInfo) {
	h.Helper()
	l, _ := store.As[store.FailureGroupLister](h.Store)
	for range 1000 {
		page, err := l.FailureGroups(h.Ctx, q)
		h.Check("troubles", err)
		if q.Limit > 0 && len(page.Groups) > q.Limit {
			h.Fatalf("troubles: got %d groups on a page of %d", len(page.Groups), q.Limit)
		}
		if page.Partial {
			h.Fatalf("troubles: the page is partial, with a budget of %d", q.Budget)
		}
		all = append(all, page.Groups...)
		if page.Cursor == "" {
			return all
		}
		q.Cursor = page.Cursor
	}
	h.Fatalf("troubles: no end after 1000 pages")
	return nil
}

func groupsOf(all []store.FailureGroupInfo) (ids []string) {
	for _, g := range all {
		ids = append(ids, g.Group)
	}
	return ids
}

// opens fails the test unless a failure group has open runs now, and a total number of runs since
// its creation.
func (h *harness) opens(group string, open, total int) {
	h.Helper()
	for _, g := range h.failureGroups(store.FailureGroupQuery{}) {
		if g.Group == group {
			h.Equal("runs of group "+group+", now and ever", []int{g.Open, g.Total}, []int{open, total})
			return
		}
	}
	h.Fatalf("group %s is not listed", group)
}

var failureGroupBehaviors = []behavior{
	{"T1_ACommitLabelsItsRun", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		h.group(l.Run, "")
		h.Commit(l, labeled(l.Commit(fence, l.Work()...), busy))
		h.group(l.Run, busy.Group)
		h.Commit(l, labeled(l.Commit(fence, l.Work()...), declined))
		h.group(l.Run, declined.Group)
		h.opens(busy.Group, 0, 1)
		h.opens(declined.Group, 1, 1)
	}},
	{"T1_EveryEffectKeepsTheLabelThatItsCommitSets", func(h *harness) {
		for _, effect := range []store.Effect{store.EffectNone, store.EffectPark, store.EffectYield, store.EffectBlock} {
			s := h.Session()
			l, fence := h.StartOwned(s)
			h.Commit(l, labeled(suite.WithEffect(l.Commit(fence, l.Work()...), effect, event.StatusRunning), busy))
			h.group(l.Run, busy.Group)
			h.Check("close session", h.Store.CloseSession(h.Ctx, 0, s))
			other := h.SessionWith("other code")
			got, err := h.Store.ClaimRun(h.Ctx, 0, other, h.IDs.Token(), l.Run)
			h.Check("claim run", err)
			h.Finish(l, got.Fence, event.StatusCompleted)
			h.Check("close session", h.Store.CloseSession(h.Ctx, 0, other))
		}
		h.opens(busy.Group, 0, 4)
	}},
	{"T1_ACommitWithoutAFrameLabelsItsRun", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Commit(l, labeled(suite.WithEffect(l.Commit(fence), store.EffectBlock, event.StatusBlocked), misfit))
		h.group(l.Run, misfit.Group)
	}},
	{"T1_OtherCommitsLeaveTheLabel", func(h *harness) {
		s := h.Session()
		l, fence := h.startFailing(s, busy)
		h.Commit(l, l.Commit(fence, l.Work()...))
		h.group(l.Run, busy.Group)
		i := h.Deliver(l.Run)
		h.Commit(l, suite.Consuming(l.Commit(fence, l.Receive(i)...), i))
		h.group(l.Run, busy.Group)
		h.Park(l, fence, time.Time{})
		h.group(l.Run, busy.Group)
	}},
	{"T1_OnlyCommitsChangeTheLabelOfARunThatGoesOn", func(h *harness) {
		s := h.Session()
		l, fence := h.startFailing(s, busy)
		h.Check("release", h.Store.Release(h.Ctx, l.Run, fence))
		h.group(l.Run, busy.Group)
		h.Own(s, l)
		h.group(l.Run, busy.Group)
		s = h.Session()
		h.RecoverDead(s)
		h.group(l.Run, busy.Group)
		h.Park(l, h.Own(s, l), h.Clock.Now().Add(time.Minute))
		h.Clock.Advance(time.Minute)
		h.Chore(s)
		h.State(l.Run, store.StateReady)
		h.group(l.Run, busy.Group)
	}},
	{"T1_ACommitTakesTheLabelAway", func(h *harness) {
		l, fence := h.startFailing(h.Session(), busy)
		h.Commit(l, cleared(l.Commit(fence, l.Work()...)))
		h.group(l.Run, "")
		h.opens(busy.Group, 0, 1)
		h.Commit(l, cleared(l.Commit(fence, l.Work()...)))
		h.Finish(l, fence, event.StatusCompleted)
		h.group(l.Run, "")
	}},
	{"T1_ARefusedCommitLabelsNothing", func(h *harness) {
		l, fence := h.startFailing(h.Session(), busy)
		h.Unchanged("refused commits", func() {
			c := labeled(l.Commit(fence, l.Work()...), declined)
			c.Fence.Token = h.IDs.Token()
			h.Is("commit of somebody else", h.Try(c).Err, store.ErrFenced)
			c = cleared(l.Commit(fence, l.Work()...))
			c.Prev = h.IDs.CommitID()
			suite.IsA[*store.ConflictError](h.Harness, "commit at another position", h.Try(c).Err)
		})
		h.group(l.Run, busy.Group)
	}},
	{"T1_AClaimTellsTheLabel", func(h *harness) {
		s := h.Session()
		l, fence := h.startFailing(s, busy)
		h.Commit(l, suite.WithEffect(l.Commit(fence, l.Work()...), store.EffectYield, ""))
		token := h.IDs.Token()
		for n := range 2 {
			got, err := h.Store.Claim(h.Ctx, store.Claim{Session: s, Token: token, Routes: []store.Route{suite.Orders}, Max: 1})
			h.Check("claim", err)
			if n == 1 && len(got.Runs) == 0 {
				break // a store may return no runs to a repeated claim
			}
			h.Equal("group of the claimed run", h.Handed(got.Runs[0]).Group, busy.Group)
			fence = got.Runs[0].Fence
		}
		h.Check("release", h.Store.Release(h.Ctx, l.Run, fence))
		token = h.IDs.Token()
		for n := range 2 {
			got, err := h.Store.ClaimRun(h.Ctx, 0, s, token, l.Run)
			if n == 1 && errors.Is(err, store.ErrOwned) {
				break
			}
			h.Check("claim run", err)
			h.Equal("group of the claimed run", h.Handed(got).Group, busy.Group)
			fence = got.Fence
		}
		h.Commit(l, suite.WithEffect(cleared(l.Commit(fence, l.Work()...)), store.EffectYield, ""))
		h.Equal("group once it is taken away", h.Claim(s, 1)[0].Group, "")
	}},
	{"T1_AClaimTellsTheLabelOfARunWithOneFrame", func(h *harness) {
		s := h.Session(suite.Orders)
		l, fence := h.StartOwned(s)
		h.Commit(l, labeled(suite.WithEffect(l.Commit(fence), store.EffectBlock, event.StatusBlocked), misfit))
		got := h.Claim(h.SessionWith("v2", suite.Orders), 1)
		h.Equal("claimed", suite.RunsOf(got), []event.RunID{l.Run})
		h.Equal("group", got[0].Group, misfit.Group)
	}},
	{"T1_ABlockedRunKeepsItsLabelUntilItGoesOn", func(h *harness) {
		s := h.Session(suite.Orders)
		l, fence := h.StartOwned(s)
		h.Commit(l, labeled(suite.WithEffect(l.Commit(fence, l.Work()...), store.EffectBlock, event.StatusBlocked), misfit))
		other := h.SessionWith("v2", suite.Orders)
		l2 := h.Claim(other, 1)[0]
		h.Check("release", h.Store.Release(h.Ctx, l.Run, l2.Fence))
		h.Refused("the code that has blocked it", s) // the claim finds that the code cannot replay the run, and blocks the run again
		h.State(l.Run, store.StateBlocked)
		h.group(l.Run, misfit.Group)
		fence = h.Own(other, l)
		h.group(l.Run, misfit.Group)
		h.Commit(l, cleared(l.Commit(fence, l.Work()...)))
		h.group(l.Run, "")
	}},
	{"T1_AFailedRunKeepsTheLabelOfItsLastCommit", func(h *harness) {
		s := h.Session()
		for _, before := range []store.FailureGroup{{}, busy, declined} {
			l, fence := h.StartOwned(s)
			h.Commit(l, labeled(l.Commit(fence, l.Work()...), before))
			h.Commit(l, labeled(suite.WithEffect(l.Commit(fence, l.End(event.StatusFailed)...), store.EffectFinish, event.StatusFailed), declined))
			h.group(l.Run, declined.Group)
		}
		h.opens(declined.Group, 3, 3)
	}},
	{"T1_ARunThatEndsOtherwiseHasNoLabel", func(h *harness) {
		s := h.Session()
		for _, status := range []event.Status{event.StatusCompleted, event.StatusCanceled, event.StatusFailed} {
			l, fence := h.startFailing(s, busy)
			h.Finish(l, fence, status) // this commit does not mention the label
			h.group(l.Run, "")
			l, fence = h.startFailing(s, busy)
			end := suite.WithEffect(l.Commit(fence, l.End(status)...), store.EffectFinish, status)
			end.Progress = true // like nearly all commits that end a run
			h.Commit(l, end)
			h.group(l.Run, "")
			l, fence = h.StartOwned(s)
			h.Commit(l, labeled(suite.WithEffect(l.Commit(fence, l.End(status)...), store.EffectFinish, status), busy))
			h.group(l.Run, "")
			if status != event.StatusFailed {
				l, fence = h.StartOwned(s)
				h.Commit(l, labeled(suite.WithEffect(l.Commit(fence, l.End(status)...), store.EffectFinish, status), declined))
				h.group(l.Run, "")
			}
		}
		h.opens(busy.Group, 0, 6)
	}},
	{"T1_NeitherARunThatContinuesNorTheNextHasALabel", func(h *harness) {
		s := h.Session()
		for _, label := range []store.FailureGroup{busy, declined} {
			l, fence := h.startFailing(s, label)
			c, next := l.Continue(fence, nil)
			h.Commit(l, c)
			h.group(l.Run, "")
			h.group(next.Run, "")
			l, fence = next, h.Own(s, next)
			c, next = l.Continue(fence, nil)
			h.Commit(l, labeled(c, label))
			h.group(l.Run, "")
			h.group(next.Run, "")
			h.Finish(next, h.Own(s, next), event.StatusCompleted)
		}
	}},
	{"T1_ADeletedRunIsInNoGroup", func(h *harness) {
		l, fence := h.startFailing(h.Session(), declined)
		h.Commit(l, labeled(suite.WithEffect(l.Commit(fence, l.End(event.StatusFailed)...), store.EffectFinish, event.StatusFailed), declined))
		h.Check("delete", h.Delete(l.Run))
		h.opens(declined.Group, 0, 1)
		h.Equal("runs in trouble", h.List(store.Query{Failing: true}), []event.RunID(nil))
		h.Clock.Advance(suite.Long)
		h.Purged(1)
	}},
	{"T1_APurgedRunIsInNoGroup", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		h.Commit(l, labeled(suite.WithEffect(l.Commit(fence, l.End(event.StatusFailed)...), store.EffectFinish, event.StatusFailed), declined))
		h.Clock.Advance(store.DefaultRetention + store.Horizon)
		h.Purged(1)
		h.opens(declined.Group, 0, 1)
		h.Equal("runs in trouble", h.List(store.Query{Failing: true}), []event.RunID(nil))
		h.Equal("runs of the group", h.List(store.Query{Group: declined.Group}), []event.RunID(nil))
	}},
	{"T1_NoLabelRefusesACommit", func(h *harness) {
		s := h.Session()
		for _, group := range []string{"", "no group", "f1:0a", strings.Repeat("f", store.MaxGroup+1), "f1-\x00"} {
			l, fence := h.StartOwned(s)
			h.Commit(l, labeled(l.Commit(fence, l.Work()...), store.FailureGroup{Group: group, Text: "x"}))
			h.group(l.Run, "")
			h.Finish(l, fence, event.StatusCompleted)
		}
		wild := store.FailureGroup{Group: strings.Repeat("f", store.MaxGroup), Kind: store.FailureKind(strings.Repeat("k", 100)), Workflow: strings.Repeat("w", 2000), Step: "a\x00\xff b", Text: strings.Repeat("é ", 1000)}
		l, _ := h.startFailing(s, wild)
		h.Equal("group of the run", h.Record(l.Run).Group, wild.Group)
		h.Equal("the group", h.failureGroups(store.FailureGroupQuery{})[0].FailureGroup, store.FailureGroup{
			Group: wild.Group, Kind: store.FailureKind(strings.Repeat("k", store.MaxGroup)), Workflow: strings.Repeat("w", store.MaxName),
			Step: "a\uFFFD\uFFFD b", Text: strings.Repeat("é ", 170) + "é", // 512 bytes, the longest text that is kept
		})
	}},
	{"T4_ARunThatIsTriedAgainLeavesItsGroupAndNamesTheLastRerun", func(h *harness) {
		l, fence := h.startFailing(h.Session(), busy)
		again := func() store.Create {
			made := h.NewLog(suite.Orders, "").Create()
			made.RerunOf = l.Run
			return made
		}
		h.Equal("a rerun of an open run", h.Create(again()).New, true)
		h.group(l.Run, busy.Group)
		h.Equal("rerun of an open run", h.Record(l.Run).Rerun, event.RunID(""))
		h.Commit(l, labeled(suite.WithEffect(l.Commit(fence, l.End(event.StatusFailed)...), store.EffectFinish, event.StatusFailed), declined))
		h.group(l.Run, declined.Group)
		before := h.Record(l.Run)
		made := again()
		for range 2 { // the caller may lose the first answer
			h.Equal("create", h.Create(made), store.Created{Run: made.Run, New: true})
		}
		before.Group, before.Rerun = "", made.Run
		h.Equal("record", h.Record(l.Run), before)
		h.group(l.Run, "")
		h.opens(declined.Group, 0, 1)
		other := again()
		h.Create(other)
		h.Equal("the last one", h.Record(l.Run).Rerun, other.Run)
	}},
	{"T2_AGroupCountsTheRunsThatComeIntoIt", func(h *harness) {
		s := h.Session()
		first := h.Clock.Now()
		l, fence := h.startFailing(s, busy)
		h.Clock.Advance(time.Minute)
		h.Commit(l, labeled(l.Commit(fence, l.Work()...), busy)) // the run is already in the group
		h.Equal("groups", h.failureGroups(store.FailureGroupQuery{}), []store.FailureGroupInfo{{FailureGroup: busy, First: first, Last: first, Total: 1, Open: 1}})
		h.startFailing(s, busy)
		last := h.Clock.Now()
		h.Equal("groups", h.failureGroups(store.FailureGroupQuery{}), []store.FailureGroupInfo{{FailureGroup: busy, First: first, Last: last, Total: 2, Open: 2}})
		h.Commit(l, cleared(l.Commit(fence, l.Work()...)))
		h.Clock.Advance(time.Minute)
		h.Commit(l, labeled(l.Commit(fence, l.Work()...), busy))
		h.Equal("groups", h.failureGroups(store.FailureGroupQuery{}), []store.FailureGroupInfo{{FailureGroup: busy, First: first, Last: h.Clock.Now(), Total: 3, Open: 2}})
	}},
	{"T2_AGroupStaysInOrderThoughTheClockIsSetBack", func(h *harness) {
		s, at := h.Session(), h.Clock.Now()
		h.startFailing(s, busy)
		h.Clock.Advance(-time.Hour) // the clock was set back
		h.startFailing(s, busy)
		h.Equal("groups", h.failureGroups(store.FailureGroupQuery{}), []store.FailureGroupInfo{{FailureGroup: busy, First: at, Last: at, Total: 2, Open: 2}})
	}},
	{"T2_TheSameCommitSentAgainCountsOnce", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		c := labeled(l.Commit(fence, l.Work()...), busy)
		h.Commit(l, c)
		h.Check("commit again", h.Try(c).Err)
		h.opens(busy.Group, 1, 1)
		end := labeled(suite.WithEffect(l.Commit(fence, l.End(event.StatusFailed)...), store.EffectFinish, event.StatusFailed), declined)
		h.Commit(l, end)
		h.Check("end again", h.Try(end).Err)
		h.opens(declined.Group, 1, 1)
		h.opens(busy.Group, 0, 1)
	}},
	{"T3_AGroupWithoutRunsIsForgottenAfterAWhile", func(h *harness) {
		s := h.Session()
		l, fence := h.startFailing(s, busy)
		kept, _ := h.startFailing(s, declined)
		h.Commit(l, cleared(l.Commit(fence, l.Work()...)))
		h.Clock.Advance(store.FailureGroupKept)
		fresh := func(id string) {
			s := h.Session()
			l, fence := h.StartOwned(s)
			h.Commit(l, labeled(l.Commit(fence, l.Work()...), store.FailureGroup{Group: id}))
			h.Commit(l, cleared(l.Commit(fence, l.Work()...)))
		}
		fresh("f1-1")
		h.Equal("groups in time", slices.Sorted(slices.Values(groupsOf(h.failureGroups(store.FailureGroupQuery{})))), []string{declined.Group, busy.Group, "f1-1"})
		h.Clock.Advance(time.Millisecond)
		fresh("f1-1") // the group exists, so the store removes no old group
		h.opens(busy.Group, 0, 1)
		fresh("f1-2")
		h.Equal("groups", slices.Sorted(slices.Values(groupsOf(h.failureGroups(store.FailureGroupQuery{})))), []string{declined.Group, "f1-1", "f1-2"})
		h.group(kept.Run, declined.Group)
		l, fence = h.StartOwned(h.Session())
		h.Commit(l, labeled(l.Commit(fence, l.Work()...), busy))
		h.opens(busy.Group, 1, 1) // the group was removed, so its counts have begun at zero
	}},
	{"T3_AGroupIntoWhichARunHasComeAgainIsKept", func(h *harness) {
		s := h.Session()
		l, fence := h.startFailing(s, declined)
		h.Commit(l, cleared(l.Commit(fence, l.Work()...))) // the group is left without runs
		h.Commit(l, labeled(l.Commit(fence, l.Work()...), declined))
		h.Clock.Advance(store.FailureGroupKept + time.Millisecond)
		h.startFailing(h.Session(), busy)
		h.Equal("groups", groupsOf(h.failureGroups(store.FailureGroupQuery{})), []string{busy.Group, declined.Group})
		h.opens(declined.Group, 1, 2)
	}},
	{"T3_ANewGroupForgetsTwoAtMostTheOldestFirst", func(h *harness) {
		s := h.Session()
		l, fence := h.StartOwned(s)
		for _, id := range []string{"f1-3", "f1-1", "f1-2", "f1-4"} {
			h.Commit(l, labeled(l.Commit(fence, l.Work()...), store.FailureGroup{Group: id}))
		}
		h.Commit(l, cleared(l.Commit(fence, l.Work()...)))
		h.Clock.Advance(store.FailureGroupKept + time.Millisecond)
		l, fence = h.StartOwned(h.Session())
		h.Commit(l, labeled(l.Commit(fence, l.Work()...), busy))
		h.Equal("groups", slices.Sorted(slices.Values(groupsOf(h.failureGroups(store.FailureGroupQuery{})))), []string{busy.Group, "f1-3", "f1-4"})
	}},
	{"TroublesArePagedThoseFirstThatSomeRunCameIntoLast", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		var want []string
		for n := range 9 {
			id := "f1-" + string(rune('a'+n%7))
			h.Commit(l, labeled(l.Commit(fence, l.Work()...), store.FailureGroup{Group: id}))
			want = slices.Insert(slices.DeleteFunc(want, func(known string) bool { return known == id }), 0, id)
			h.Clock.Advance(time.Second)
		}
		for limit := range 9 {
			h.Equal("groups", groupsOf(h.failureGroups(store.FailureGroupQuery{Limit: limit})), want)
		}
		lister, _ := store.As[store.FailureGroupLister](h.Store)
		for _, cursor := range []string{"x", "12", "12.f1:a", ".f1-a"} {
			if _, err := lister.FailureGroups(h.Ctx, store.FailureGroupQuery{Cursor: cursor}); err == nil {
				h.Fatalf("troubles: the cursor %q is accepted", cursor)
			}
		}
	}},
	{"TroublesOfOneMillisecondArePagedByTheirGroups", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		for _, id := range []string{"f1-c", "f1-a", "f1-b"} {
			h.Commit(l, labeled(l.Commit(fence, l.Work()...), store.FailureGroup{Group: id}))
		}
		for limit := range 4 {
			h.Equal("groups", groupsOf(h.failureGroups(store.FailureGroupQuery{Limit: limit})), []string{"f1-a", "f1-b", "f1-c"})
		}
	}},
	{"TroublesAreSelected", func(h *harness) {
		s := h.Session()
		l, fence := h.startFailing(s, misfit)
		h.Clock.Advance(time.Second)
		since := h.Clock.Now()
		h.startFailing(s, busy)
		h.Clock.Advance(time.Second)
		h.Commit(l, labeled(l.Commit(fence, l.Work()...), declined))
		for what, c := range map[string]struct {
			q    store.FailureGroupQuery
			want []string
		}{
			"all":        {store.FailureGroupQuery{}, []string{declined.Group, busy.Group, misfit.Group}},
			"groups":     {store.FailureGroupQuery{Groups: []string{misfit.Group, "f1-unknown", busy.Group}}, []string{busy.Group, misfit.Group}},
			"kinds":      {store.FailureGroupQuery{Kinds: []store.FailureKind{store.FailureKindFailed, store.FailureKindBlocked}}, []string{declined.Group, misfit.Group}},
			"workflow":   {store.FailureGroupQuery{Workflow: suite.Orders.Workflow}, []string{declined.Group, busy.Group}},
			"step":       {store.FailureGroupQuery{Step: "ship"}, []string{busy.Group}},
			"since":      {store.FailureGroupQuery{Since: since}, []string{declined.Group, busy.Group}},
			"since then": {store.FailureGroupQuery{Since: since.Add(time.Millisecond)}, []string{declined.Group}},
			"open":       {store.FailureGroupQuery{Open: true}, []string{declined.Group, busy.Group}},
			"several":    {store.FailureGroupQuery{Workflow: suite.Orders.Workflow, Step: "ship", Since: since, Open: true}, []string{busy.Group}},
			"none":       {store.FailureGroupQuery{Workflow: suite.Refunds.Workflow, Step: "ship"}, nil},
		} {
			h.Equal("groups, selected by "+what, groupsOf(h.failureGroups(c.q)), c.want)
			c.q.Limit = 1
			h.Equal("groups one by one, selected by "+what, groupsOf(h.failureGroups(c.q)), c.want)
		}
	}},
	{"NoListOfTroublesLooksAtMoreThanItsBudget", func(h *harness) {
		l, fence := h.StartOwned(h.Session())
		for n := range 5 {
			h.Commit(l, labeled(l.Commit(fence, l.Work()...), store.FailureGroup{Group: "f1-" + string(rune('a'+n))}))
			h.Clock.Advance(time.Second)
		}
		lister, _ := store.As[store.FailureGroupLister](h.Store)
		each := h.Store.Partitions() // the budget is divided among the partitions, and all groups are in one of them
		page, err := lister.FailureGroups(h.Ctx, store.FailureGroupQuery{Budget: 3 * each})
		h.Check("troubles", err)
		h.Equal("groups", groupsOf(page.Groups), []string{"f1-e", "f1-d", "f1-c"})
		h.Equal("partial, and looked at", []any{page.Partial, page.Looked}, []any{true, 3})
		page, err = lister.FailureGroups(h.Ctx, store.FailureGroupQuery{Budget: 5 * each})
		h.Check("troubles", err)
		h.Equal("partial, and looked at", []any{page.Partial, page.Looked}, []any{false, 5})
	}},
}

// listFailureGroupBehaviors test lists of runs by failure group.
var listFailureGroupBehaviors = []behavior{
	{"ListSelectsAGroup", func(h *harness) {
		s := h.Session()
		var want, others []event.RunID
		for n := range 6 {
			l, _ := h.startFailing(s, []store.FailureGroup{busy, declined, {}}[n%3])
			h.Clock.Advance(time.Duration(n/3) * time.Second) // some runs are created in the same millisecond
			switch n % 3 {
			case 0:
				want = append(want, l.Run)
			case 1:
				others = append(others, l.Run)
			}
		}
		all := append(slices.Clone(want), others...)
		for _, runs := range [][]event.RunID{want, all} {
			slices.SortFunc(runs, func(a, b event.RunID) int {
				ra, rb := h.Record(a), h.Record(b)
				return store.NewestFirst(&ra, &rb)
			})
		}
		for limit := range 6 {
			h.Equal("runs of a group", h.List(store.Query{Group: busy.Group, Limit: limit}), want)
			h.Equal("runs in trouble", h.List(store.Query{Failing: true, Limit: limit}), all)
			h.Equal("runs of a group and a workflow", h.List(store.Query{Group: busy.Group, Workflow: suite.Orders.Workflow, Limit: limit}), want)
			h.Equal("runs of a group and another workflow", h.List(store.Query{Group: busy.Group, Workflow: suite.Refunds.Workflow, Limit: limit}), []event.RunID(nil))
		}
		slices.Reverse(all)
		h.Equal("runs in trouble, the oldest first", h.List(store.Query{Failing: true, Oldest: true, Limit: 2}), all)
		h.Equal("runs of no group", h.List(store.Query{Group: "f1-unknown"}), []event.RunID(nil))
		h.Equal("count of a group", h.Count(store.Query{Group: busy.Group}), map[event.Status]int{event.StatusPending: 2})
		h.Equal("count of runs in trouble", h.Count(store.Query{Failing: true}), map[event.Status]int{event.StatusPending: 4})
		h.Equal("count of a group and a root", h.Count(store.Query{Group: busy.Group, Root: want[0]}), map[event.Status]int{event.StatusPending: 1})
	}},
	{"AListOfAGroupLooksAtNoOtherRun", func(h *harness) {
		s := h.Session()
		for range 20 {
			h.StartOwned(s)
		}
		l, _ := h.startFailing(s, busy)
		lister, _ := store.As[store.Lister](h.Store)
		for _, q := range []store.Query{{Group: busy.Group, Budget: 2}, {Failing: true, Budget: 2}} {
			page, err := lister.List(h.Ctx, q)
			h.Check("list", err)
			h.Equal("runs", runsOfPages([]store.Page{page}), []event.RunID{l.Run})
			h.Equal("looked at", page.Looked, 1)
		}
	}},
}
