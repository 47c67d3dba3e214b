package history

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// Sessions, claims and commits in random histories.

func (h *history) drawOpenSession(t *rapid.T) {
	s := store.Session{
		ID: h.IDs.Session(), Worker: "host/1", TTL: historyTTL,
		Routes:      rapid.SampledFrom([][]store.Route{{suite.Orders}, {suite.Refunds}, historyRoutes}).Draw(t, "routes"),
		Fingerprint: rapid.SampledFrom([]string{"v1", "v2"}).Draw(t, "fingerprint"),
	}
	h.Check("open session", h.Store.OpenSession(h.Ctx, s))
	h.m.openSession(s)
	h.sessions = append(h.sessions, s)
}

func (h *history) drawHeartbeat(t *rapid.T) {
	s := h.session(t).ID
	h.request(t, func() {
		beat, err := h.Store.Heartbeat(h.Ctx, 0, s)
		slices.Sort(beat.Unread)
		want, wantErr := h.m.heartbeat(s)
		h.sameError("heartbeat", err, wantErr)
		h.checkNext("heartbeat", beat.Outbox, h.m.outbox, wantErr != nil)
		want.Outbox = beat.Outbox
		if wantErr == nil {
			want.Next = h.nextDue()
		}
		h.checkUnserved(beat.Unserved)
		beat.Unserved = nil // checked above; the store chooses which runs it names
		h.Equal("heartbeat", beat, want)

		h.compareOwned(s)
	})
}

func compareIDs(a, b event.RunID) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func (h *history) drawCloseSession(t *rapid.T) {
	s := h.session(t).ID
	h.request(t, func() {
		h.Check("close session", h.Store.CloseSession(h.Ctx, 0, s))
		h.m.closeSession(s)
	})
}

func (h *history) drawClaim(t *rapid.T) {
	s := h.session(t)
	c := store.Claim{
		Session: s.ID, Token: h.IDs.Token(), Routes: s.Routes,
		Max: rapid.IntRange(0, 4).Draw(t, "max"), Exempt: rapid.IntRange(0, 2).Draw(t, "exempt"),
	}
	if chance(t, "one route", 30) {
		c.Routes = []store.Route{rapid.SampledFrom(historyRoutes).Draw(t, "route")}
	}
	h.claimBoth(c)
}

// claimBoth claims from the store, checks that the claimed runs are the first in the order of
// claims, and grants the same runs in the model.
func (h *history) claimBoth(c store.Claim) {
	h.Helper()
	got, err := h.Store.Claim(h.Ctx, c)
	if !h.live(c.Session) {
		h.Is("claim", err, store.ErrExpired)
		return
	}
	h.Check("claim", err)
	h.m.chores(c)
	passed := h.adoptBlocked(c)
	available := 0
	for _, route := range c.Routes {
		available += len(h.m.readyRuns(route))
	}
	// A claim that blocks some runs may replace them by later runs, or leave the later runs to the
	// next claim.
	least, most := min(c.Max, available+len(passed))-len(passed), min(c.Max, available)
	if h.limits.on {
		least, most = min(c.Max, max(least, 0)), c.Max // the store may also return runs that wait for permits
	}
	if n := len(got.Runs); n < least || n > most {
		h.Fatalf("claim of at most %d: got %d runs, want from %d to %d: %d are ready, and %d were blocked", c.Max, n, least, most, available, len(passed))
	}
	h.judgeClaimed(&c, got.Runs, nil)
	if h.limits.on {
		h.askedOf(&c, len(got.Runs)+len(passed))
	}
	for _, r := range passed {
		if slices.ContainsFunc(h.m.readyRuns(r.Route), func(o *modelRun) bool { return compareReady(r, o) > 0 }) {
			h.Fatalf("claim of %v: blocked run %s before its turn", c.Routes, r.Run)
		}
	}
	h.Equal("next due time", got.Next, h.nextDue())
	for _, route := range c.Routes {
		if len(h.m.readyRuns(route)) > 0 {
			h.m.wakes[route] = true
		} else {
			h.emptied = append(h.emptied, route) // the store may remove its wake
		}
	}
}

// judgeClaimed fails the test unless the runs of a claim are the first in the order of claims. It
// then grants the same runs in the model. If left is not nil, the claim may have skipped the queues
// for which left returns true.
func (h *history) judgeClaimed(c *store.Claim, runs []store.ClaimedRun, left func(*modelQueue) bool) {
	h.Helper()
	for _, claimed := range runs {
		r := h.m.runs[claimed.Run]
		if r == nil || r.QueueState != store.StateReady || !slices.Contains(c.Routes, claimed.Route) || slices.ContainsFunc(h.m.readyRuns(claimed.Route), r.passes) {
			h.Fatalf("claim of %v: got run %s of %v before its turn", c.Routes, claimed.Run, claimed.Route)
		}
		if h.m.cannotReplay(r, c.Session) {
			h.Fatalf("claim: got run %s, which code %q could not replay", claimed.Run, h.m.leases[c.Session].Fingerprint)
		}
		h.judgeGrant(r, left)
		want := h.m.grant(r, c)
		want.Waited = r.waited(claimed.Waited)
		h.Equal("claimed run", h.Handed(claimed), want)
		h.fences = append(h.fences, claimed.Fence)
	}
}

// judgeNext checks the claim of a commit. Unlike in claimBoth, the store chooses how many runs it
// claims. held contains the held weight of each limit before the commit.
func (h *history) judgeNext(c *store.Claim, got store.Claimed, held map[store.LimitID]int) {
	h.Helper()
	if n := len(got.Runs); n > c.Max {
		h.Fatalf("commit that claims at most %d: got %d runs", c.Max, n)
	}
	if !h.live(c.Session) {
		h.Equal("runs for a session that is over", suite.RunsOf(got.Runs), []event.RunID(nil))
		return
	}
	now := h.present()
	for _, r := range h.m.sorted() {
		if r.QueueState == store.StateReady && now[r.Run] == store.StateBlocked && slices.Contains(c.Routes, r.Route) && h.m.cannotReplay(r, c.Session) {
			_, _ = h.m.op.Take(r, c.Session, c, nil)
		}
	}
	h.judgeClaimed(c, got.Runs, h.dueAfter(held))
	wakes := h.Inspect().Wakes
	for _, route := range c.Routes {
		h.limits.asked[route] = true
		if len(h.m.readyRuns(route)) == 0 {
			h.emptied = append(h.emptied, route)
		} else if wakes[route] {
			h.m.wakes[route] = true // the commit announces all ready runs of the route
		}
	}
}

// adoptBlocked copies from the store to the model which blocked runs a claim has made ready, and
// which ready runs it has blocked. It checks that each of these changes was allowed, and returns
// the runs that the claim has blocked.
func (h *history) adoptBlocked(c store.Claim) (passed []*modelRun) {
	h.Helper()
	var fitting, others []*modelRun // runs that may become ready, and runs that may become blocked
	for _, r := range h.m.sorted() {
		incompatible := h.m.cannotReplay(r, c.Session)
		switch {
		case !slices.Contains(c.Routes, r.Route):
		case r.QueueState == store.StateBlocked && !incompatible:
			fitting = append(fitting, r)
		case r.QueueState == store.StateReady && incompatible:
			others = append(others, r)
		}
	}
	if len(fitting)+len(others) == 0 {
		return nil
	}
	now, made, turn := h.present(), 0, h.m.nextTurn()
	for _, r := range fitting {
		if now[r.Run] != store.StateBlocked {
			h.m.makeReady(r, turn)
			made++
		}
	}
	h.Equal("number of blocked runs that were made ready", made, min(c.Max, len(fitting)))
	for _, r := range others {
		if now[r.Run] == store.StateBlocked {
			_, _ = h.m.op.Take(r, c.Session, &c, nil)
			passed = append(passed, r)
		}
	}
	return passed
}

func (h *history) drawClaimRun(t *rapid.T) {
	s, l := h.session(t).ID, h.log(t, func(r *modelRun) bool { return r.QueueState != store.StateEnded })
	token := h.IDs.Token()
	got, err := h.Store.ClaimRun(h.Ctx, 0, s, token, l.Run)
	want, wantErr := h.m.claimRun(s, token, l.Run, h.mayClaim(h.m.runs[l.Run], err == nil))
	h.sameError("claim run", err, wantErr)
	if wantErr == nil {
		want.Waited = h.m.runs[l.Run].waited(got.Waited)
	}
	h.Equal("claim run", h.Handed(got), want)
	h.fences = append(h.fences, want.Fence)
}

func (h *history) drawDue(t *rapid.T) {
	limit := rapid.IntRange(0, 3).Draw(t, "limit")
	if h.limits.on && limit > 0 {
		limit = 1000 // the store chooses how many queues it rechecks
	}
	next, err := h.Store.Due(h.Ctx, 0, limit)
	h.Check("due", err)
	h.m.due(limit)
	h.Equal("next due time", next, h.nextDue())
}

// drawWait polls the notifications of a worker. If the answer names ready runs, drawWait claims.
func (h *history) drawWait(t *rapid.T) {
	s := h.session(t)
	if !h.live(s.ID) {
		return
	}
	var routes []store.Route
	if chance(t, "capacity", 80) {
		routes = s.Routes
	}
	woken := h.Poll(s.ID, routes...)
	h.Equal("due", woken.Due, true)
	h.Equal("wakes taken", len(woken.Claim) > 0, h.announced(routes, len(woken.Claim) > 0))
	for run := range h.m.untold[s.ID] {
		if !slices.Contains(woken.Unread, run) {
			h.Fatalf("wait: not told of the items of run %s", run)
		}
	}
	for _, run := range woken.Unread { // a Wait may name a run once for each new item, while the owner has not changed
		if slices.Contains(h.m.unread(s.ID), run) && !h.m.untold[s.ID][run] {
			h.Fatalf("wait: told again of the items of run %s", run)
		}
	}
	delete(h.m.untold, s.ID)
	if len(woken.Claim) == 0 {
		return
	}
	h.Equal("partitions with a wake", woken.Claim, []int{0})
	h.takeWakes(routes)
	h.claimBoth(store.Claim{Session: s.ID, Token: h.IDs.Token(), Routes: routes, Max: rapid.IntRange(0, 2).Draw(t, "max"), Exempt: rapid.IntRange(0, 2).Draw(t, "exempt")})
}

// announced reports whether a Wait for the routes must return a claim. If all wakes of the routes
// are unsure, the Wait may return a claim or not; told reports whether it did. If it did not,
// announced removes the wakes.
func (h *history) announced(routes []store.Route, told bool) bool {
	unsure := false
	for _, c := range routes {
		if h.m.wakes[c] && !h.unsure[c] {
			return true
		}
		unsure = unsure || h.m.wakes[c]
	}
	if unsure && !told {
		for _, c := range routes {
			delete(h.m.wakes, c)
		}
	}
	return unsure && told
}

// takeWakes removes from the model the wakes that a Wait has taken from the store. If the store
// does not show its wakes, takeWakes does nothing. In that case the following claim from all routes
// sets the wakes of routes with ready runs and makes the others unsure.
func (h *history) takeWakes(routes []store.Route) {
	h.Helper()
	if !h.Shows() {
		return
	}
	left, taken := h.Inspect().Wakes, 0
	for _, c := range routes {
		if h.m.wakes[c] && !left[c] {
			delete(h.m.wakes, c)
			taken++
		}
	}
	if taken == 0 {
		h.Fatalf("wait: told to claim, and no wake was taken")
	}
}

func (h *history) drawCommit(t *rapid.T) { h.commitOf(t, h.log(t, isOwned)) }

// drawHandOn draws a commit of a run that holds permits. Usually other runs wait for these permits.
func (h *history) drawHandOn(t *rapid.T) {
	if !h.limits.on {
		return
	}
	if chance(t, "scarce", 60) {
		h.setBoth(store.SetLimit{LimitID: gpu, Config: store.LimitConfig{AtOnce: rapid.IntRange(1, 3).Draw(t, "at once")}})
		h.compare()
	}
	for range rapid.IntRange(0, 3).Draw(t, "who waits") {
		l := h.NewLog(rapid.SampledFrom(historyRoutes).Draw(t, "route"), "")
		c := l.Create()
		c.Uses = store.MergeUses([]store.Use{{LimitID: gpu, Weight: rapid.IntRange(1, 2).Draw(t, "weight")}})
		if chance(t, "two", 50) {
			c.Uses = store.MergeUses(append(c.Uses, store.Use{LimitID: disk, Weight: 1}))
		}
		h.drawFair(t, &c)
		h.logs = append(h.logs, l)
		h.createBoth(c)
		h.compare()
	}
	s := h.session(t)
	if !h.live(s.ID) {
		h.drawOpenSession(t)
		s = h.sessions[len(h.sessions)-1]
	}
	h.claimBoth(store.Claim{Session: s.ID, Token: h.IDs.Token(), Routes: s.Routes, Max: 3})
	h.compare()
	h.commitOf(t, h.log(t, func(r *modelRun) bool { return isOwned(r) && r.Permits }))
}

func (h *history) commitOf(t *rapid.T, l *suite.Log) {
	c := h.newCommit(t, l)
	switch {
	case chance(t, "wrong position", 5):
		c.Prev = h.IDs.CommitID()
	case chance(t, "wrong item", 5):
		c.ConsumeLast += "-not"
	case chance(t, "wrong workflow id", 3):
		c.WorkflowID += "-not"
		if c.Continue != nil {
			c.Continue.WorkflowID = c.WorkflowID
		}
	case chance(t, "wrong sequence", 3):
		c.First++
	case c.Continue != nil && chance(t, "known run", 5):
		c.Continue.Run = c.Run
	}
	if h.Shows() && chance(t, "claims", 50) {
		s := h.session(t)
		if r := h.m.runs[c.Run]; r != nil && r.QueueState == store.StateOwned && !chance(t, "another session", 20) {
			s = h.sessions[slices.IndexFunc(h.sessions, func(s store.Session) bool { return s.ID == r.Owner })]
		}
		c.Next = &store.Claim{
			Session: s.ID, Token: h.IDs.Token(), Routes: s.Routes, Max: rapid.IntRange(1, 3).Draw(t, "max"), Exempt: rapid.IntRange(0, 2).Draw(t, "exempt"),
		}
	}
	h.request(t, func() {
		held := h.held()
		got := h.Try(c)
		want, executed := h.m.commit(c)
		h.sameError("commit", got.Err, want.Err)
		want.Next = got.Next
		want.Sent = slices.DeleteFunc(want.Sent, func(o store.Outgoing) bool { // the store may omit a sent record from its answer
			return !slices.ContainsFunc(got.Sent, func(sent store.Outgoing) bool { return sent.ID == o.ID })
		})
		if want.Err == nil {
			h.Equal("commit", got, want)
		}
		switch {
		case executed:
			l.Accept(c)
			if c.Next != nil {
				h.judgeNext(c.Next, got.Next, held)
			}
		case want.Err != nil:
			h.Equal("runs with a commit that is refused", suite.RunsOf(got.Next.Runs), []event.RunID(nil))
		}
		for _, run := range got.Next.Runs { // a repeated commit also returns its claimed runs
			if r := h.m.runs[run.Run]; r.QueueState != store.StateOwned || r.Fence != run.Fence || r.Fence.Token != c.Next.Token || r.Owner != c.Next.Session {
				h.Fatalf("commit: run %s is not of the session that it was handed to", run.Run)
			}
		}
	})
}

// newCommit draws a commit that is valid unless its fence is invalid.
func (h *history) newCommit(t *rapid.T, l *suite.Log) store.Commit {
	fence := h.fence(t, l)
	var items []store.Item
	if r := h.m.runs[l.Run]; r != nil {
		items = r.Inbox[:rapid.IntRange(0, len(r.Inbox)).Draw(t, "items")]
	}
	effect := rapid.SampledFrom([]store.Effect{
		store.EffectNone, store.EffectPark, store.EffectYield, store.EffectBlock, store.EffectFinish,
		store.EffectContinue, store.EffectContinue,
	}).Draw(t, "effect")
	status := rapid.SampledFrom([]event.Status{"", event.StatusRunning, event.StatusWaiting}).Draw(t, "status")
	due := time.Time{}
	var events []event.Event
	unused := store.UnusedNone
	if r := h.m.runs[l.Run]; r != nil && len(r.Uses) > 0 && chance(t, "unused", 30) {
		effect, unused = store.EffectPark, rapid.SampledFrom([]store.Unused{store.UnusedBack, store.UnusedInQueue}).Draw(t, "not used")
	}
	if effect == store.EffectContinue {
		return h.newContinue(t, l, fence, items)
	}
	switch {
	case effect == store.EffectFinish:
		status = rapid.SampledFrom([]event.Status{event.StatusCompleted, event.StatusFailed, event.StatusCanceled}).Draw(t, "end")
		events = append(l.Receive(items...), l.End(status)...)
	case chance(t, "without a frame", 20):
		due = l.State.Due()
	case effect == store.EffectPark:
		if chance(t, "timer", 70) {
			due = h.later(t)
		}
		events = append(l.Receive(items...), l.Sleep(due)...)
	default:
		events = append(l.Receive(items...), l.Work()...)
	}
	c := suite.WithEffect(l.Commit(fence, events...), effect, status)
	if c.Frame != nil {
		c.Send, c.Publish = h.sends(t, l), h.publications(t)
	}
	if len(items) > 0 {
		c = suite.Consuming(c, items...)
	}
	c.Due, c.Unused = due, unused
	if h.limits.on && chance(t, "hold back", 60) {
		c.HoldBack = rapid.SampledFrom([]time.Duration{20 * time.Millisecond, 2 * time.Second, 2 * time.Second}).Draw(t, "held back")
	}
	if suite.Has[store.FailureGroupLister](h.Store) && chance(t, "label", 40) {
		c.FailureGroup = &store.FailureGroup{Group: rapid.SampledFrom([]string{"", "f1-a", "f1-b"}).Draw(t, "group"), Text: "§"}
		c.FailureGroup.Kind = rapid.SampledFrom(store.FailureKinds()).Draw(t, "kind")
	}
	c.Progress, c.Closing = rapid.Bool().Draw(t, "progress"), chance(t, "closing", 20)
	if c.Effect == store.EffectNone {
		c.Exempt = store.Exempt(rapid.IntRange(0, 2).Draw(t, "exempt"))
	}
	return c
}
