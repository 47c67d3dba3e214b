package history

import (
	"maps"
	"slices"
	"time"

	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// Limits in random histories. If a claim has not taken runs from some limiter queues, the store
// chooses which of these queues it closes. The history checks in the snapshot that the rules allow
// the choice. Variables and messages call a limiter queue a line, a closed queue shut, an admitted
// queue called, and free capacity room.

// limitHistory contains the limiter queues at the last comparison with the store, and the changes
// since then.
type limitHistory struct {
	on     bool
	fair   bool                 // the runs of route orders have fairness keys
	before []store.WaitingQueue // the queues at the last comparison
	asked  map[store.Route]bool // the routes of the claims since then
	begun  []begun              // the runs that got permits since then
	ranks  int
}

// begun is a run that got its permits, and the queues that held the run back before the operation.
// Stands of these queues has only the uses at which they did.
type begun struct {
	*modelRun
	back []store.WaitingQueue
}

var (
	gpu   = store.LimitID{Name: "gpu"}
	disk  = store.LimitID{Name: "disk"}
	hosts = []store.LimitID{{Name: "host", Key: "a"}, {Name: "host", Key: "b"}}
)

// drawUses draws the limits that a run uses.
func (h *history) drawUses(t *rapid.T, c *store.Create) {
	if !h.limits.on || chance(t, "unlimited", 25) {
		return
	}
	use := func(id store.LimitID) {
		c.Uses = append(c.Uses, store.Use{LimitID: id, Weight: rapid.SampledFrom([]int{1, 1, 2, 3}).Draw(t, "weight")})
	}
	switch rapid.IntRange(0, 5).Draw(t, "uses") {
	case 0, 1:
		use(gpu)
	case 2:
		use(disk)
	case 3, 4:
		use(gpu)
		use(disk)
	default:
		use(rapid.SampledFrom(hosts).Draw(t, "host"))
		if chance(t, "of all hosts", 60) {
			use(gpu)
		}
	}
	c.Uses, c.Whole = store.MergeUses(c.Uses), chance(t, "whole", 25)
	if !c.Whole && chance(t, "nested", 30) {
		for i := range c.Uses {
			c.Uses[i].Nested = true
		}
	}
}

// drawFair draws the fairness key of a run. If fairness keys are on, every ready run of route
// orders has one, except runs that collect starts and canceled runs.
func (h *history) drawFair(t *rapid.T, c *store.Create) {
	if h.limits.fair && c.Route == suite.Orders {
		c.Fair, c.Share = rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "fair"), rapid.IntRange(0, 3).Draw(t, "share")
	}
}

// drawFairRuns creates several runs one after the other, without claims between them. They wait
// together, so that the positions of their fairness keys matter.
func (h *history) drawFairRuns(t *rapid.T) {
	if !h.limits.fair {
		return
	}
	for range rapid.IntRange(1, 4).Draw(t, "runs") {
		l := h.NewLog(suite.Orders, "")
		c := l.Create()
		h.drawFair(t, &c)
		if chance(t, "limited", 40) {
			h.drawUses(t, &c)
		}
		h.logs = append(h.logs, l)
		h.createBoth(c)
	}
}

// createBoth creates a run in the store and in the model.
func (h *history) createBoth(c store.Create) {
	h.Helper()
	h.m.action++
	h.adoptAway()
	got, want := h.Create(c), h.m.create(c)
	if r := h.m.runs[c.Run]; r != nil && r.Waits() {
		want.Waits = got.Waits
	}
	h.Equal("create", got, want)
}

// drawSetLimits configures a limit.
func (h *history) drawSetLimits(t *rapid.T) {
	if !h.limits.on {
		return
	}
	s := store.SetLimit{LimitID: rapid.SampledFrom([]store.LimitID{gpu, gpu, disk, disk, {Name: "host"}, hosts[0]}).Draw(t, "limit")}
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		s.Reset = true
	case 1:
		s.Config.Paused = true
	case 2, 3, 4:
		s.Config = store.LimitConfig{Rate: rapid.SampledFrom([]int{1, 2, 10}).Draw(t, "rate"), Burst: rapid.IntRange(0, 2).Draw(t, "burst")}
		if chance(t, "in a longer time", 20) {
			s.Config.Per = time.Minute
		}
	}
	if s.Config == (store.LimitConfig{}) || chance(t, "and at once", 30) {
		s.Config.AtOnce = rapid.IntRange(1, 4).Draw(t, "at once")
	}
	s.Config.Refuse = chance(t, "refuse", 10)
	if chance(t, "waiting", 10) {
		s.Config.Waiting = rapid.IntRange(1, 3).Draw(t, "waiting weights")
	}
	s.Default = s.Key == "" && chance(t, "of the code", 20)
	h.request(t, func() { h.setBoth(s) })
}

// setBoth configures a limit in the store and in the model.
func (h *history) setBoth(s store.SetLimit) {
	h.Helper()
	l, _ := store.As[store.Limiter](h.Store)
	h.Check("set limits", l.SetLimits(h.Ctx, 0, []store.SetLimit{s}))
	h.m.configure(s)
}

// nextDue returns when the next run is due or the next limiter queue must be rechecked, whichever
// is earlier.
func (h *history) nextDue() time.Time {
	next := h.m.nextDue()
	if !h.limits.on {
		return next
	}
	for _, l := range h.Inspect().Waiting {
		if !l.Until.IsZero() && (next.IsZero() || l.Until.Before(next)) {
			next = l.Until
		}
	}
	return next
}

// mayClaim reports whether a run that needs permits may be claimed by its ID. A ready run must be the
// first of its queue, and no earlier queue may keep it back. A parked or blocked run must find free
// permits for which no run waits. If the first runs of several queues have fairness keys and equal
// positions, the store chooses their order. given reports that the store has granted this run, which
// then counts as the first of them. [L2, L5]
func (h *history) mayClaim(r *modelRun, given bool) bool {
	if r == nil || len(r.Uses) == 0 || r.Permits || r.LeftQueue || r.QueueState != store.StateReady && r.QueueState != store.StateParked && r.QueueState != store.StateBlocked {
		return true
	}
	if r.QueueState != store.StateReady {
		return h.m.heavy(r.Uses) != nil || !slices.ContainsFunc(r.Uses, func(u store.Use) bool {
			l := h.m.stand(u.LimitID)
			return !h.m.hasFree(u) || !u.Local && l.Waits > l.Away
		})
	}
	i := slices.IndexFunc(h.limits.before, func(l store.WaitingQueue) bool { return l.Runs[0] == r.Run })
	if i < 0 {
		return false
	}
	before := slices.DeleteFunc(slices.Clone(h.limits.before[:i]), func(l store.WaitingQueue) bool {
		return given && compareTurns(h.m.runs[l.Runs[0]], r) == 0
	})
	return h.m.heavy(r.Uses) != nil || h.m.haveFree(r.Uses) && !h.keptBefore(append(before, h.limits.before[i]), len(before))
}

// keptBefore reports whether a closed or admitted queue before queue i keeps queue i back.
func (h *history) keptBefore(lines []store.WaitingQueue, i int) bool {
	return slices.ContainsFunc(lines[:i], func(l store.WaitingQueue) bool {
		return (l.Closed || l.Admitted) && h.keepsBack(&l, lines[i].Uses) != 0
	})
}

// keepsBack returns, as a bit set, the indexes of the uses at which queue l keeps back a later run
// with the given uses. These are the common limits at which the queue counts. A nested run is kept
// back only at the only limit without capacity for l, or if l was admitted and has capacity at all
// its limits. [L5]
func (h *history) keepsBack(l *store.WaitingQueue, uses []store.Use) (at uint16) {
	lacks := len(slices.DeleteFunc(slices.Clone(l.Uses), h.m.hasFree))
	for i, u := range l.Uses {
		if l.Stands>>i&1 == 0 || !share(l.Uses[i:i+1], uses) {
			continue
		}
		if !uses[0].Nested || lacks == 0 && l.Admitted || lacks == 1 && !h.m.hasFree(u) {
			at |= 1 << i
		}
	}
	return at
}

// judgeStands fails the test if a closed queue counts at wrong limits. It checks nothing while a
// queue waits for a rate, is nested, or is owed permits. A queue of the first two kinds may be
// outdated by one recheck. A queue of the third kind counts without capacity. [L5]
func (h *history) judgeStands(got *store.Snapshot) {
	h.Helper()
	counts := map[store.LimitID][]*modelRun{} // by limit: the first runs of the queues that count at it
	for _, l := range got.Waiting {
		if !l.Until.IsZero() && l.Closed || l.Owed || l.Uses[0].Nested {
			return
		}
	}
	for _, l := range got.Waiting {
		first := h.m.runs[l.Runs[0]]
		// A run with a fairness key may have the same position as a run of another route. In this
		// case neither run keeps back the other.
		at := h.countsAt(&l, counts, func(*modelRun) bool { return true })
		other := h.countsAt(&l, counts, func(r *modelRun) bool {
			return first.Fair == "" && r.Fair == "" || first.Priority != r.Priority || first.Route == r.Route
		})
		if l.Closed && l.Stands != at && l.Stands != other {
			h.Fatalf("line of run %s: it counts at %b of %v, want %b", l.Runs[0], l.Stands, l.Uses, at)
		}
		addCounts(counts, &l, first)
	}
}

// addCounts adds the first run of a closed or admitted queue to the limits at which the queue
// counts.
func addCounts(counts map[store.LimitID][]*modelRun, l *store.WaitingQueue, first *modelRun) {
	if l.Closed || l.Admitted {
		for _, u := range l.At() {
			counts[u.LimitID] = append(counts[u.LimitID], first)
		}
	}
}

// countsAt returns, as a bit set, the indexes of the uses at which a closed queue counts. A run in
// counts precedes the queue if earlier returns true for the run. A queue that is owed permits counts
// at the next limit even if it lacks capacity.
func (h *history) countsAt(l *store.WaitingQueue, counts map[store.LimitID][]*modelRun, earlier func(*modelRun) bool) (at uint16) {
	order := store.StandingOrder(l.Uses)
	for _, i := range order {
		if h.m.stand(l.Uses[i].LimitID).Config.Paused {
			return 1 << i
		}
	}
	for _, i := range order {
		if at |= 1 << i; slices.ContainsFunc(counts[l.Uses[i].LimitID], earlier) || !l.Owed && !h.m.hasFree(l.Uses[i]) {
			break
		}
	}
	return at
}

// awayOf returns for each limit the total weight of the runs in closed queues that do not count at
// the limit.
func awayOf(lines []store.WaitingQueue) map[store.LimitID]int {
	away := map[store.LimitID]int{}
	for _, l := range lines {
		for i, u := range l.Uses {
			if l.Closed && l.Stands>>i&1 == 0 {
				away[u.LimitID] += u.Weight * len(l.Runs)
			}
		}
	}
	return away
}

// adoptAway copies the weights that first wait for another limit from the store to the model. It is
// called before a start that limits may refuse.
func (h *history) adoptAway() {
	if h.limits.on {
		h.m.limits.away = awayOf(h.Inspect().Waiting)
	}
}

// held returns the weight of each limit that is held.
func (h *history) held() map[store.LimitID]int {
	held := map[store.LimitID]int{}
	for id, l := range h.m.knownLimits() {
		held[id] = l.Held
	}
	return held
}

// dueAfter returns a function that reports whether the claim of a commit may skip a queue. Such a
// claim rechecks no queues, so it may skip a queue that waits for a rate and whose recheck is due.
// Until the next recheck, the queue keeps its position at its limits like any closed queue. Only
// runs that use none of these limits may precede it. A claim may not skip the queue if the held
// weight of one of its limits has changed since held, because this change admits the queue.
func (h *history) dueAfter(held map[store.LimitID]int) func(*modelQueue) bool {
	return func(l *modelQueue) bool {
		happened := slices.ContainsFunc(l.uses, func(u store.Use) bool { return h.m.stand(u.LimitID).Held != held[u.LimitID] })
		return !happened && slices.ContainsFunc(h.limits.before, func(o store.WaitingQueue) bool {
			return o.Route == l.route && slices.Equal(o.Uses, l.uses) && o.Closed && !o.Until.IsZero() && !o.Until.After(h.Clock.Now())
		})
	}
}

// judgeGrant fails the test if a run must not get its permits now, or if an earlier run of its
// route must get permits first. left is the same function as in judgeClaimed.
func (h *history) judgeGrant(r *modelRun, left func(*modelQueue) bool) {
	h.Helper()
	if h.limits.on {
		for _, l := range h.m.waiting() {
			if l.route != r.Route {
				continue
			}
			for n, o := range l.runs {
				inQueue := r.Waits() && slices.Equal(l.uses, r.Uses) && compareReady(o, r) < 0
				if inQueue || n == 0 && compareTurns(o, r) < 0 && h.m.mustGo(o) && (left == nil || !left(&l)) {
					h.Fatalf("claim: run %s came before run %s, which may have its permits", r.Run, o.Run)
				}
			}
		}
	}
	if !r.Waits() || h.m.heavy(r.Uses) != nil {
		return
	}
	for _, u := range r.Uses {
		if !h.m.hasFree(u) {
			h.Fatalf("claim: run %s got %d of limit %s, which has no room: %+v", r.Run, u.Weight, u, h.m.stand(u.LimitID))
		}
	}
	b := begun{modelRun: r}
	for _, l := range h.limits.before {
		if l.Closed || l.Admitted && l.Until.After(h.Clock.Now()) {
			if l.Stands = h.keepsBack(&l, r.Uses); l.Stands != 0 {
				b.back = append(b.back, l)
			}
		}
	}
	h.limits.begun = append(h.limits.begun, b)
}

// judgeLimits fails the test unless the store has the queues of the model, and each queue has a
// state that the last operation allows. It then copies these states to the model.
func (h *history) judgeLimits(got *store.Snapshot) {
	h.Helper()
	if !h.limits.on {
		return
	}
	h.adoptQueues(got.Waiting)
	h.judgeStands(got)
	h.m.limits.away = awayOf(got.Waiting)
	for id, r := range h.m.runs {
		if o := got.Runs[id]; o != nil {
			r.WaitsSince = r.waited(o.WaitsSince)
		}
	}
	for i := range got.Waiting {
		h.judgeQueue(got, i)
	}
	for _, r := range h.limits.begun {
		h.judgeTurn(got.Waiting, r)
	}
	for id, l := range got.Limits { // a store may omit a part of a limit that has no state
		if l.Held == 0 && l.Waits == 0 && l.Next.IsZero() {
			if _, own := h.m.limits.keys[id]; !own && (id.Key != "" || !l.Set && !l.Default) {
				delete(got.Limits, id)
			}
		}
	}
	h.limits.before, h.limits.begun = got.Waiting, nil
	h.limits.asked = map[store.Route]bool{}
	h.adoptWakes(got)
}

// waited returns since for a run with limits, and the zero time for other runs. The store chooses
// when the waiting time of a run with limits begins.
func (r *modelRun) waited(since time.Time) time.Time {
	if len(r.Uses) == 0 {
		return time.Time{}
	}
	return since
}

// adoptQueues checks that each waiting run is in one queue, at the right position. If runs arrived
// together, it copies their order from the store. [L9]
func (h *history) adoptQueues(lines []store.WaitingQueue) {
	h.Helper()
	want := h.m.waiting()
	h.Equal("number of lines", len(lines), len(want))
	var firsts []*modelRun
	for _, l := range lines {
		i := slices.IndexFunc(want, func(w modelQueue) bool { return w.route == l.Route && slices.Equal(w.uses, l.Uses) })
		if i < 0 {
			h.Fatalf("line of %v for %v: nobody should wait in it", l.Route, l.Uses)
		}
		h.Equal("runs in line", slices.Sorted(slices.Values(l.Runs)), slices.Sorted(slices.Values(runsOfModel(want[i].runs))))
		var before []*modelRun
		for _, id := range l.Runs {
			h.notAfter(before, h.m.runs[id])
			before = append(before, h.m.runs[id])
		}
		for _, id := range l.Runs {
			if r := h.m.runs[id]; r.placeRank == 0 && !r.keyed {
				h.limits.ranks++
				r.rank, r.placeRank = h.limits.ranks, h.limits.ranks
			}
		}
		first := h.m.runs[l.Runs[0]]
		for _, o := range firsts {
			if compareTurns(o, first) > 0 {
				h.Fatalf("lines: that of run %s comes before that of run %s", o.Run, first.Run)
			}
		}
		firsts = append(firsts, first)
	}
}

func runsOfModel(runs []*modelRun) []event.RunID {
	var ids []event.RunID
	for _, r := range runs {
		ids = append(ids, r.Run)
	}
	return ids
}

// judgeQueue fails the test unless the state of queue i is allowed after its state at the last
// comparison.
func (h *history) judgeQueue(got *store.Snapshot, i int) {
	h.Helper()
	l, now := got.Waiting[i], h.Clock.Now()
	heavy, was := h.m.heavy(l.Uses) != nil, store.WaitingQueue{}
	if n := slices.IndexFunc(h.limits.before, func(o store.WaitingQueue) bool { return o.Route == l.Route && slices.Equal(o.Uses, l.Uses) }); n >= 0 {
		was = h.limits.before[n]
	}
	stays := len(was.Runs) > 0 && slices.Contains(l.Runs, was.Runs[0]) // the first run still waits
	kept := len(was.Runs) > 0 && (was.Closed || was.Admitted)
	switch {
	case heavy && l.Closed:
		h.Fatalf("line of run %s: it is shut, and can never have its permits: nobody ends it", l.Runs[0])
	case l.Admitted && was.Admitted && stays && l.Until.Equal(was.Until):
	case l.Admitted && !l.Until.Equal(now.Add(suite.AdmitTime)):
		h.Fatalf("line of run %s: called until %v, want %v", l.Runs[0], l.Until, now.Add(suite.AdmitTime))
	case l.Closed && !kept && !h.limits.asked[l.Route]:
		h.Fatalf("line of run %s: it is shut, and nobody has asked it", l.Runs[0])
	case !l.Closed && !l.Admitted && was.Admitted && stays && !heavy && was.Until.After(now) && !h.begunIn(&l):
		h.Fatalf("line of run %s: it has lost its turn at %v, before %v", l.Runs[0], now, was.Until)
	case !l.Closed && !l.Admitted && was.Closed && stays && !heavy && !h.begunIn(&l):
		h.Fatalf("line of run %s: it was asked in vain, and is open: it may be passed", l.Runs[0])
	case l.Closed:
		h.judgeClosed(got, i)
	}
}

// begunIn reports whether a run of the queue got its permits since the last comparison. Such a run
// preceded the runs that wait now, so the queue may have been open.
func (h *history) begunIn(l *store.WaitingQueue) bool {
	return slices.ContainsFunc(h.limits.begun, func(b begun) bool { return b.Route == l.Route && slices.Equal(b.Uses, l.Uses) })
}

// judgeClosed fails the test unless a closed queue is rechecked when its rates let it continue, or
// earlier. Package fsck checks that the queue may not continue now.
func (h *history) judgeClosed(got *store.Snapshot, i int) {
	h.Helper()
	l, opens := got.Waiting[i], h.Clock.Now()
	for _, u := range l.Uses {
		s := h.m.stand(u.LimitID)
		if s.Config.Paused || s.Config.AtOnce > 0 && s.Held+u.Weight > s.Config.AtOnce {
			return
		}
		if s.Next.After(opens) {
			opens = s.Next
		}
	}
	if l.Uses[0].Nested { // an earlier queue may have begun to wait for a second limit since the last recheck
		opens = opens.Add(suite.AdmitTime)
	}
	if !h.keptBefore(got.Waiting, i) && (l.Until.IsZero() || l.Until.After(opens)) {
		h.Fatalf("line of run %s: it is looked at %v, and may go at %v; it is %v", l.Runs[0], l.Until, opens, h.Clock.Now())
	}
}

// judgeTurn fails the test if run r got its permits before an earlier run that waits for one of the
// same limits in a closed or admitted queue. [L5, L7]
//
// A closed queue must have counted at the common limit before the operation, and must have reason to
// count there after it. One operation may do both of the following: end that reason, and then grant
// the permits of a later run. A commit that holds back a rate closes the rate before its claim. A
// claim grants a run that takes the rest of an earlier limit, or closes a queue that precedes at an
// earlier limit, before it examines later runs. In these cases the later run passes no queue.
//
// An operation first gives back capacity and then only takes it, so the reason does not come back
// after the grant. If the reason ended after the grant, judgeTurn misses that r passed the queue. But
// then another run took the earlier limit, out of order. The queue still counts at its first limit,
// so this run is noticed if it passed the queue there.
func (h *history) judgeTurn(lines []store.WaitingQueue, r begun) {
	h.Helper()
	counts := map[store.LimitID][]*modelRun{}
	for i := range lines {
		l, first := &lines[i], h.m.runs[lines[i].Runs[0]]
		at := h.countsAt(l, counts, func(*modelRun) bool { return true })
		passed := slices.ContainsFunc(r.back, func(o store.WaitingQueue) bool {
			return o.Runs[0] == l.Runs[0] && (l.Admitted || !o.Admitted && l.Closed && o.Stands&at != 0)
		})
		if passed && compareTurns(first, r.modelRun) < 0 {
			h.Fatalf("claim: run %s has passed run %s, which waits in vain before it", r.Run, first.Run)
		}
		addCounts(counts, l, first)
	}
}

// askedOf records the routes of a claim that has returned n runs. It fails the test if the claim
// could have returned more runs but has left a queue open.
func (h *history) askedOf(c *store.Claim, n int) {
	h.Helper()
	for _, route := range c.Routes {
		h.limits.asked[route] = true
	}
	for _, l := range h.Inspect().Waiting {
		if n < c.Max && slices.Contains(c.Routes, l.Route) && !l.Closed {
			h.Fatalf("claim of %v: it had room for more, and left the line of run %s open", c.Routes, l.Runs[0])
		}
	}
}

// adoptWakes fails the test unless the store has a wake for every route with a run that may be
// claimed. It copies the other wakes from the store, because an admitted queue that is now empty
// may have left them. [L8]
func (h *history) adoptWakes(got *store.Snapshot) {
	h.Helper()
	needed := map[store.Route]event.RunID{}
	for _, route := range historyRoutes {
		for _, r := range h.m.readyRuns(route) {
			needed[route] = r.Run
		}
	}
	for _, l := range got.Waiting {
		if !l.Closed {
			needed[l.Route] = l.Runs[0]
		}
	}
	for route, run := range needed {
		if !got.Wakes[route] {
			h.Fatalf("wakes: none is set for %v, where run %s may be claimed", route, run)
		}
	}
	h.m.wakes = maps.Clone(got.Wakes)
	if h.m.wakes == nil {
		h.m.wakes = map[store.Route]bool{}
	}
}
