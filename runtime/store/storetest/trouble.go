package storetest

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

func canTellTroubles(s store.Store) bool {
	_, ok := store.As[store.TroubleLister](s)
	return ok
}

// The failures of the tests, one of each kind. Two failed runs of different workflows may have the
// same text but never the same group. Identifiers call a failure group a trouble.
var (
	declined = store.Trouble{Group: "f1-0a", Kind: store.TroubleFailed, Workflow: orders.Workflow, Step: "charge", Text: "declined: §"}
	busy     = store.Trouble{Group: "f1-0b", Kind: store.TroubleRetrying, Workflow: orders.Workflow, Step: "ship", Text: "503"}
	misfit   = store.Trouble{Group: "f1-0c", Kind: store.TroubleBlocked, Workflow: refunds.Workflow, Text: "charge v reserve"}
)

// labeled returns a commit that sets the failure label of its run.
func labeled(c store.Commit, t store.Trouble) store.Commit {
	c.Trouble = &t
	return c
}

// cleared returns a commit that removes the failure label of its run.
func cleared(c store.Commit) store.Commit { return labeled(c, store.Trouble{}) }

// startTroubled starts a run that a session owns, with a failure label.
func (h *harness) startTroubled(s store.SessionID, t store.Trouble) (*Log, store.Fence) {
	h.Helper()
	l, fence := h.startOwned(s)
	h.commit(l, labeled(l.Commit(fence, l.Work()...), t))
	return l, fence
}

// group fails the test unless the run is in the failure group want, and lists agree.
func (h *harness) group(run event.RunID, want string) {
	h.Helper()
	h.equal("group of the run", h.record(run).Group, want)
	if !canList(h.store) {
		return
	}
	h.equal("in trouble", slices.Contains(h.list(store.Query{Troubled: true}), run), want != "")
	for _, t := range []store.Trouble{declined, busy, misfit} {
		h.equal("in group "+t.Group, slices.Contains(h.list(store.Query{Group: t.Group}), run), want == t.Group)
	}
}

// troubles returns all failure groups that match, read page by page.
func (h *harness) troubles(q store.TroubleQuery) (all []store.TroubleGroup) {
	h.Helper()
	l, _ := store.As[store.TroubleLister](h.store)
	for range 1000 {
		page, err := l.Troubles(h.ctx, q)
		h.check("troubles", err)
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

func groupsOf(all []store.TroubleGroup) (ids []string) {
	for _, g := range all {
		ids = append(ids, g.Group)
	}
	return ids
}

// opens fails the test unless a failure group has open runs now and has had total runs.
func (h *harness) opens(group string, open, total int) {
	h.Helper()
	for _, g := range h.troubles(store.TroubleQuery{}) {
		if g.Group == group {
			h.equal("runs of group "+group+", now and ever", []int{g.Open, g.Total}, []int{open, total})
			return
		}
	}
	h.Fatalf("group %s is not listed", group)
}

var troubleBehaviors = []behavior{
	{"T1_ACommitLabelsItsRun", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		h.group(l.Run, "")
		h.commit(l, labeled(l.Commit(fence, l.Work()...), busy))
		h.group(l.Run, busy.Group)
		h.commit(l, labeled(l.Commit(fence, l.Work()...), declined))
		h.group(l.Run, declined.Group)
		h.opens(busy.Group, 0, 1)
		h.opens(declined.Group, 1, 1)
	}},
	{"T1_EveryEffectKeepsTheLabelThatItsCommitSets", func(h *harness) {
		for _, effect := range []store.Effect{store.EffectNone, store.EffectPark, store.EffectYield, store.EffectBlock} {
			s := h.session()
			l, fence := h.startOwned(s)
			h.commit(l, labeled(withEffect(l.Commit(fence, l.Work()...), effect, event.StatusRunning), busy))
			h.group(l.Run, busy.Group)
			h.check("close session", h.store.CloseSession(h.ctx, 0, s))
			other := h.sessionWith("other code")
			got, err := h.store.ClaimRun(h.ctx, 0, other, h.ids.Token(), l.Run)
			h.check("claim run", err)
			h.finish(l, got.Fence, event.StatusCompleted)
			h.check("close session", h.store.CloseSession(h.ctx, 0, other))
		}
		h.opens(busy.Group, 0, 4)
	}},
	{"T1_ACommitWithoutAFrameLabelsItsRun", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.commit(l, labeled(withEffect(l.Commit(fence), store.EffectBlock, event.StatusBlocked), misfit))
		h.group(l.Run, misfit.Group)
	}},
	{"T1_OtherCommitsLeaveTheLabel", func(h *harness) {
		s := h.session()
		l, fence := h.startTroubled(s, busy)
		h.commit(l, l.Commit(fence, l.Work()...))
		h.group(l.Run, busy.Group)
		i := h.deliver(l.Run)
		h.commit(l, consuming(l.Commit(fence, l.Receive(i)...), i))
		h.group(l.Run, busy.Group)
		h.park(l, fence, time.Time{})
		h.group(l.Run, busy.Group)
	}},
	{"T1_OnlyCommitsChangeTheLabelOfARunThatGoesOn", func(h *harness) {
		s := h.session()
		l, fence := h.startTroubled(s, busy)
		h.check("release", h.store.Release(h.ctx, l.Run, fence))
		h.group(l.Run, busy.Group)
		h.own(s, l)
		h.group(l.Run, busy.Group)
		s = h.session()
		h.recoverDead(s)
		h.group(l.Run, busy.Group)
		h.park(l, h.own(s, l), h.clock.Now().Add(time.Minute))
		h.clock.Advance(time.Minute)
		h.chore(s)
		h.state(l.Run, store.StateReady)
		h.group(l.Run, busy.Group)
	}},
	{"T1_ACommitTakesTheLabelAway", func(h *harness) {
		l, fence := h.startTroubled(h.session(), busy)
		h.commit(l, cleared(l.Commit(fence, l.Work()...)))
		h.group(l.Run, "")
		h.opens(busy.Group, 0, 1)
		h.commit(l, cleared(l.Commit(fence, l.Work()...)))
		h.finish(l, fence, event.StatusCompleted)
		h.group(l.Run, "")
	}},
	{"T1_ARefusedCommitLabelsNothing", func(h *harness) {
		l, fence := h.startTroubled(h.session(), busy)
		h.unchanged("refused commits", func() {
			c := labeled(l.Commit(fence, l.Work()...), declined)
			c.Fence.Token = h.ids.Token()
			h.is("commit of somebody else", h.try(c).Err, store.ErrFenced)
			c = cleared(l.Commit(fence, l.Work()...))
			c.Prev = h.ids.CommitID()
			isA[*store.ConflictError](h, "commit at another position", h.try(c).Err)
		})
		h.group(l.Run, busy.Group)
	}},
	{"T1_AClaimTellsTheLabel", func(h *harness) {
		s := h.session()
		l, fence := h.startTroubled(s, busy)
		h.commit(l, withEffect(l.Commit(fence, l.Work()...), store.EffectYield, ""))
		token := h.ids.Token()
		for n := range 2 {
			got, err := h.store.Claim(h.ctx, store.Claim{Session: s, Token: token, Routes: []store.Route{orders}, Max: 1})
			h.check("claim", err)
			if n == 1 && len(got.Runs) == 0 {
				break // a store need not repeat the answer
			}
			h.equal("group of the claimed run", h.handed(got.Runs[0]).Group, busy.Group)
			fence = got.Runs[0].Fence
		}
		h.check("release", h.store.Release(h.ctx, l.Run, fence))
		token = h.ids.Token()
		for n := range 2 {
			got, err := h.store.ClaimRun(h.ctx, 0, s, token, l.Run)
			if n == 1 && errors.Is(err, store.ErrOwned) {
				break
			}
			h.check("claim run", err)
			h.equal("group of the claimed run", h.handed(got).Group, busy.Group)
			fence = got.Fence
		}
		h.commit(l, withEffect(cleared(l.Commit(fence, l.Work()...)), store.EffectYield, ""))
		h.equal("group once it is taken away", h.claim(s, 1)[0].Group, "")
	}},
	{"T1_AClaimTellsTheLabelOfARunWithOneFrame", func(h *harness) {
		s := h.session(orders)
		l, fence := h.startOwned(s)
		h.commit(l, labeled(withEffect(l.Commit(fence), store.EffectBlock, event.StatusBlocked), misfit))
		got := h.claim(h.sessionWith("v2", orders), 1)
		h.equal("claimed", runsOf(got), []event.RunID{l.Run})
		h.equal("group", got[0].Group, misfit.Group)
	}},
	{"T1_ABlockedRunKeepsItsLabelUntilItGoesOn", func(h *harness) {
		s := h.session(orders)
		l, fence := h.startOwned(s)
		h.commit(l, labeled(withEffect(l.Commit(fence, l.Work()...), store.EffectBlock, event.StatusBlocked), misfit))
		other := h.sessionWith("v2", orders)
		l2 := h.claim(other, 1)[0]
		h.check("release", h.store.Release(h.ctx, l.Run, l2.Fence))
		h.refused("the code that has blocked it", s) // the claim blocks the run again
		h.state(l.Run, store.StateBlocked)
		h.group(l.Run, misfit.Group)
		fence = h.own(other, l)
		h.group(l.Run, misfit.Group)
		h.commit(l, cleared(l.Commit(fence, l.Work()...)))
		h.group(l.Run, "")
	}},
	{"T1_AFailedRunKeepsTheLabelOfItsLastCommit", func(h *harness) {
		s := h.session()
		for _, before := range []store.Trouble{{}, busy, declined} {
			l, fence := h.startOwned(s)
			h.commit(l, labeled(l.Commit(fence, l.Work()...), before))
			h.commit(l, labeled(withEffect(l.Commit(fence, l.End(event.StatusFailed)...), store.EffectFinish, event.StatusFailed), declined))
			h.group(l.Run, declined.Group)
		}
		h.opens(declined.Group, 3, 3)
	}},
	{"T1_ARunThatEndsOtherwiseHasNoLabel", func(h *harness) {
		s := h.session()
		for _, status := range []event.Status{event.StatusCompleted, event.StatusCanceled, event.StatusFailed} {
			l, fence := h.startTroubled(s, busy)
			h.finish(l, fence, status) // the commit does not mention the label
			h.group(l.Run, "")
			l, fence = h.startTroubled(s, busy)
			end := withEffect(l.Commit(fence, l.End(status)...), store.EffectFinish, status)
			end.Progress = true // like nearly all commits that end a run
			h.commit(l, end)
			h.group(l.Run, "")
			l, fence = h.startOwned(s)
			h.commit(l, labeled(withEffect(l.Commit(fence, l.End(status)...), store.EffectFinish, status), busy))
			h.group(l.Run, "")
			if status != event.StatusFailed {
				l, fence = h.startOwned(s)
				h.commit(l, labeled(withEffect(l.Commit(fence, l.End(status)...), store.EffectFinish, status), declined))
				h.group(l.Run, "")
			}
		}
		h.opens(busy.Group, 0, 6)
	}},
	{"T1_NeitherARunThatContinuesNorTheNextHasALabel", func(h *harness) {
		s := h.session()
		for _, label := range []store.Trouble{busy, declined} {
			l, fence := h.startTroubled(s, label)
			c, next := l.Continue(fence, nil)
			h.commit(l, c)
			h.group(l.Run, "")
			h.group(next.Run, "")
			l, fence = next, h.own(s, next)
			c, next = l.Continue(fence, nil)
			h.commit(l, labeled(c, label))
			h.group(l.Run, "")
			h.group(next.Run, "")
			h.finish(next, h.own(s, next), event.StatusCompleted)
		}
	}},
	{"T1_ADeletedRunIsInNoGroup", func(h *harness) {
		l, fence := h.startTroubled(h.session(), declined)
		h.commit(l, labeled(withEffect(l.Commit(fence, l.End(event.StatusFailed)...), store.EffectFinish, event.StatusFailed), declined))
		h.check("delete", h.delete(l.Run))
		h.opens(declined.Group, 0, 1)
		h.equal("runs in trouble", h.list(store.Query{Troubled: true}), []event.RunID(nil))
		h.clock.Advance(long)
		h.purged(1)
	}},
	{"T1_APurgedRunIsInNoGroup", func(h *harness) {
		l, fence := h.startOwned(h.session())
		h.commit(l, labeled(withEffect(l.Commit(fence, l.End(event.StatusFailed)...), store.EffectFinish, event.StatusFailed), declined))
		h.clock.Advance(store.DefaultRetention + store.Horizon)
		h.purged(1)
		h.opens(declined.Group, 0, 1)
		h.equal("runs in trouble", h.list(store.Query{Troubled: true}), []event.RunID(nil))
		h.equal("runs of the group", h.list(store.Query{Group: declined.Group}), []event.RunID(nil))
	}},
	{"T1_NoLabelRefusesACommit", func(h *harness) {
		s := h.session()
		for _, group := range []string{"", "no group", "f1:0a", strings.Repeat("f", store.MaxGroup+1), "f1-\x00"} {
			l, fence := h.startOwned(s)
			h.commit(l, labeled(l.Commit(fence, l.Work()...), store.Trouble{Group: group, Text: "x"}))
			h.group(l.Run, "")
			h.finish(l, fence, event.StatusCompleted)
		}
		wild := store.Trouble{Group: strings.Repeat("f", store.MaxGroup), Kind: store.TroubleKind(strings.Repeat("k", 100)), Workflow: strings.Repeat("w", 2000), Step: "a\x00\xff b", Text: strings.Repeat("é ", 1000)}
		l, _ := h.startTroubled(s, wild)
		h.equal("group of the run", h.record(l.Run).Group, wild.Group)
		h.equal("the group", h.troubles(store.TroubleQuery{})[0].Trouble, store.Trouble{
			Group: wild.Group, Kind: store.TroubleKind(strings.Repeat("k", store.MaxGroup)), Workflow: strings.Repeat("w", store.MaxName),
			Step: "a\uFFFD\uFFFD b", Text: strings.Repeat("é ", 170) + "é", // 512 bytes
		})
	}},
	{"T4_ARunThatIsTriedAgainLeavesItsGroupAndNamesTheLastRerun", func(h *harness) {
		l, fence := h.startTroubled(h.session(), busy)
		again := func() store.Create {
			made := h.newLog(orders, "").Create()
			made.RerunOf = l.Run
			return made
		}
		h.equal("a rerun of an open run", h.create(again()).New, true)
		h.group(l.Run, busy.Group)
		h.equal("rerun of an open run", h.record(l.Run).Rerun, event.RunID(""))
		h.commit(l, labeled(withEffect(l.Commit(fence, l.End(event.StatusFailed)...), store.EffectFinish, event.StatusFailed), declined))
		h.group(l.Run, declined.Group)
		before := h.record(l.Run)
		made := again()
		for range 2 { // the first answer may be lost
			h.equal("create", h.create(made), store.Created{Run: made.Run, New: true})
		}
		before.Group, before.Rerun = "", made.Run
		h.equal("record", h.record(l.Run), before)
		h.group(l.Run, "")
		h.opens(declined.Group, 0, 1)
		other := again()
		h.create(other)
		h.equal("the last one", h.record(l.Run).Rerun, other.Run)
	}},
	{"T2_AGroupCountsTheRunsThatComeIntoIt", func(h *harness) {
		s := h.session()
		first := h.clock.Now()
		l, fence := h.startTroubled(s, busy)
		h.clock.Advance(time.Minute)
		h.commit(l, labeled(l.Commit(fence, l.Work()...), busy)) // the run is already in the group
		h.equal("groups", h.troubles(store.TroubleQuery{}), []store.TroubleGroup{{Trouble: busy, First: first, Last: first, Total: 1, Open: 1}})
		h.startTroubled(s, busy)
		last := h.clock.Now()
		h.equal("groups", h.troubles(store.TroubleQuery{}), []store.TroubleGroup{{Trouble: busy, First: first, Last: last, Total: 2, Open: 2}})
		h.commit(l, cleared(l.Commit(fence, l.Work()...)))
		h.clock.Advance(time.Minute)
		h.commit(l, labeled(l.Commit(fence, l.Work()...), busy))
		h.equal("groups", h.troubles(store.TroubleQuery{}), []store.TroubleGroup{{Trouble: busy, First: first, Last: h.clock.Now(), Total: 3, Open: 2}})
	}},
	{"T2_AGroupStaysInOrderThoughTheClockIsSetBack", func(h *harness) {
		s, at := h.session(), h.clock.Now()
		h.startTroubled(s, busy)
		h.clock.Advance(-time.Hour) // the clock was set back
		h.startTroubled(s, busy)
		h.equal("groups", h.troubles(store.TroubleQuery{}), []store.TroubleGroup{{Trouble: busy, First: at, Last: at, Total: 2, Open: 2}})
	}},
	{"T2_TheSameCommitSentAgainCountsOnce", func(h *harness) {
		l, fence := h.startOwned(h.session())
		c := labeled(l.Commit(fence, l.Work()...), busy)
		h.commit(l, c)
		h.check("commit again", h.try(c).Err)
		h.opens(busy.Group, 1, 1)
		end := labeled(withEffect(l.Commit(fence, l.End(event.StatusFailed)...), store.EffectFinish, event.StatusFailed), declined)
		h.commit(l, end)
		h.check("end again", h.try(end).Err)
		h.opens(declined.Group, 1, 1)
		h.opens(busy.Group, 0, 1)
	}},
	{"T3_AGroupWithoutRunsIsForgottenAfterAWhile", func(h *harness) {
		s := h.session()
		l, fence := h.startTroubled(s, busy)
		kept, _ := h.startTroubled(s, declined)
		h.commit(l, cleared(l.Commit(fence, l.Work()...)))
		h.clock.Advance(store.TroubleKept)
		fresh := func(id string) {
			s := h.session()
			l, fence := h.startOwned(s)
			h.commit(l, labeled(l.Commit(fence, l.Work()...), store.Trouble{Group: id}))
			h.commit(l, cleared(l.Commit(fence, l.Work()...)))
		}
		fresh("f1-1")
		h.equal("groups in time", slices.Sorted(slices.Values(groupsOf(h.troubles(store.TroubleQuery{})))), []string{declined.Group, busy.Group, "f1-1"})
		h.clock.Advance(time.Millisecond)
		fresh("f1-1") // the group exists already
		h.opens(busy.Group, 0, 1)
		fresh("f1-2")
		h.equal("groups", slices.Sorted(slices.Values(groupsOf(h.troubles(store.TroubleQuery{})))), []string{declined.Group, "f1-1", "f1-2"})
		h.group(kept.Run, declined.Group)
		l, fence = h.startOwned(h.session())
		h.commit(l, labeled(l.Commit(fence, l.Work()...), busy))
		h.opens(busy.Group, 1, 1) // counted from the beginning
	}},
	{"T3_AGroupIntoWhichARunHasComeAgainIsKept", func(h *harness) {
		s := h.session()
		l, fence := h.startTroubled(s, declined)
		h.commit(l, cleared(l.Commit(fence, l.Work()...))) // leaves the group without runs
		h.commit(l, labeled(l.Commit(fence, l.Work()...), declined))
		h.clock.Advance(store.TroubleKept + time.Millisecond)
		h.startTroubled(h.session(), busy)
		h.equal("groups", groupsOf(h.troubles(store.TroubleQuery{})), []string{busy.Group, declined.Group})
		h.opens(declined.Group, 1, 2)
	}},
	{"T3_ANewGroupForgetsTwoAtMostTheOldestFirst", func(h *harness) {
		s := h.session()
		l, fence := h.startOwned(s)
		for _, id := range []string{"f1-3", "f1-1", "f1-2", "f1-4"} {
			h.commit(l, labeled(l.Commit(fence, l.Work()...), store.Trouble{Group: id}))
		}
		h.commit(l, cleared(l.Commit(fence, l.Work()...)))
		h.clock.Advance(store.TroubleKept + time.Millisecond)
		l, fence = h.startOwned(h.session())
		h.commit(l, labeled(l.Commit(fence, l.Work()...), busy))
		h.equal("groups", slices.Sorted(slices.Values(groupsOf(h.troubles(store.TroubleQuery{})))), []string{busy.Group, "f1-3", "f1-4"})
	}},
	{"TroublesArePagedThoseFirstThatSomeRunCameIntoLast", func(h *harness) {
		l, fence := h.startOwned(h.session())
		var want []string
		for n := range 9 {
			id := "f1-" + string(rune('a'+n%7))
			h.commit(l, labeled(l.Commit(fence, l.Work()...), store.Trouble{Group: id}))
			want = slices.Insert(slices.DeleteFunc(want, func(known string) bool { return known == id }), 0, id)
			h.clock.Advance(time.Second)
		}
		for limit := range 9 {
			h.equal("groups", groupsOf(h.troubles(store.TroubleQuery{Limit: limit})), want)
		}
		lister, _ := store.As[store.TroubleLister](h.store)
		for _, cursor := range []string{"x", "12", "12.f1:a", ".f1-a"} {
			if _, err := lister.Troubles(h.ctx, store.TroubleQuery{Cursor: cursor}); err == nil {
				h.Fatalf("troubles: the cursor %q is accepted", cursor)
			}
		}
	}},
	{"TroublesOfOneMillisecondArePagedByTheirGroups", func(h *harness) {
		l, fence := h.startOwned(h.session())
		for _, id := range []string{"f1-c", "f1-a", "f1-b"} {
			h.commit(l, labeled(l.Commit(fence, l.Work()...), store.Trouble{Group: id}))
		}
		for limit := range 4 {
			h.equal("groups", groupsOf(h.troubles(store.TroubleQuery{Limit: limit})), []string{"f1-a", "f1-b", "f1-c"})
		}
	}},
	{"TroublesAreSelected", func(h *harness) {
		s := h.session()
		l, fence := h.startTroubled(s, misfit)
		h.clock.Advance(time.Second)
		since := h.clock.Now()
		h.startTroubled(s, busy)
		h.clock.Advance(time.Second)
		h.commit(l, labeled(l.Commit(fence, l.Work()...), declined))
		for what, c := range map[string]struct {
			q    store.TroubleQuery
			want []string
		}{
			"all":        {store.TroubleQuery{}, []string{declined.Group, busy.Group, misfit.Group}},
			"groups":     {store.TroubleQuery{Groups: []string{misfit.Group, "f1-unknown", busy.Group}}, []string{busy.Group, misfit.Group}},
			"kinds":      {store.TroubleQuery{Kinds: []store.TroubleKind{store.TroubleFailed, store.TroubleBlocked}}, []string{declined.Group, misfit.Group}},
			"workflow":   {store.TroubleQuery{Workflow: orders.Workflow}, []string{declined.Group, busy.Group}},
			"step":       {store.TroubleQuery{Step: "ship"}, []string{busy.Group}},
			"since":      {store.TroubleQuery{Since: since}, []string{declined.Group, busy.Group}},
			"since then": {store.TroubleQuery{Since: since.Add(time.Millisecond)}, []string{declined.Group}},
			"open":       {store.TroubleQuery{Open: true}, []string{declined.Group, busy.Group}},
			"several":    {store.TroubleQuery{Workflow: orders.Workflow, Step: "ship", Since: since, Open: true}, []string{busy.Group}},
			"none":       {store.TroubleQuery{Workflow: refunds.Workflow, Step: "ship"}, nil},
		} {
			h.equal("groups, selected by "+what, groupsOf(h.troubles(c.q)), c.want)
			c.q.Limit = 1
			h.equal("groups one by one, selected by "+what, groupsOf(h.troubles(c.q)), c.want)
		}
	}},
	{"NoListOfTroublesLooksAtMoreThanItsBudget", func(h *harness) {
		l, fence := h.startOwned(h.session())
		for n := range 5 {
			h.commit(l, labeled(l.Commit(fence, l.Work()...), store.Trouble{Group: "f1-" + string(rune('a'+n))}))
			h.clock.Advance(time.Second)
		}
		lister, _ := store.As[store.TroubleLister](h.store)
		each := h.store.Partitions() // all groups are in one partition
		page, err := lister.Troubles(h.ctx, store.TroubleQuery{Budget: 3 * each})
		h.check("troubles", err)
		h.equal("groups", groupsOf(page.Groups), []string{"f1-e", "f1-d", "f1-c"})
		h.equal("partial, and looked at", []any{page.Partial, page.Looked}, []any{true, 3})
		page, err = lister.Troubles(h.ctx, store.TroubleQuery{Budget: 5 * each})
		h.check("troubles", err)
		h.equal("partial, and looked at", []any{page.Partial, page.Looked}, []any{false, 5})
	}},
}

// listTroubleBehaviors test lists of runs by failure group.
var listTroubleBehaviors = []behavior{
	{"ListSelectsAGroup", func(h *harness) {
		s := h.session()
		var want, others []event.RunID
		for n := range 6 {
			l, _ := h.startTroubled(s, []store.Trouble{busy, declined, {}}[n%3])
			h.clock.Advance(time.Duration(n/3) * time.Second) // some are created in the same millisecond
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
				ra, rb := h.record(a), h.record(b)
				return store.NewestFirst(&ra, &rb)
			})
		}
		for limit := range 6 {
			h.equal("runs of a group", h.list(store.Query{Group: busy.Group, Limit: limit}), want)
			h.equal("runs in trouble", h.list(store.Query{Troubled: true, Limit: limit}), all)
			h.equal("runs of a group and a workflow", h.list(store.Query{Group: busy.Group, Workflow: orders.Workflow, Limit: limit}), want)
			h.equal("runs of a group and another workflow", h.list(store.Query{Group: busy.Group, Workflow: refunds.Workflow, Limit: limit}), []event.RunID(nil))
		}
		slices.Reverse(all)
		h.equal("runs in trouble, the oldest first", h.list(store.Query{Troubled: true, Oldest: true, Limit: 2}), all)
		h.equal("runs of no group", h.list(store.Query{Group: "f1-unknown"}), []event.RunID(nil))
		h.equal("count of a group", h.count(store.Query{Group: busy.Group}), map[event.Status]int{event.StatusPending: 2})
		h.equal("count of runs in trouble", h.count(store.Query{Troubled: true}), map[event.Status]int{event.StatusPending: 4})
		h.equal("count of a group and a root", h.count(store.Query{Group: busy.Group, Root: want[0]}), map[event.Status]int{event.StatusPending: 1})
	}},
	{"AListOfAGroupLooksAtNoOtherRun", func(h *harness) {
		s := h.session()
		for range 20 {
			h.startOwned(s)
		}
		l, _ := h.startTroubled(s, busy)
		lister, _ := store.As[store.Lister](h.store)
		for _, q := range []store.Query{{Group: busy.Group, Budget: 2}, {Troubled: true, Budget: 2}} {
			page, err := lister.List(h.ctx, q)
			h.check("list", err)
			h.equal("runs", runsOfPages([]store.Page{page}), []event.RunID{l.Run})
			h.equal("looked at", page.Looked, 1)
		}
	}},
}
