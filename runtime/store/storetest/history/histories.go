// Package history executes random histories on a store and on a model of plain maps, and compares
// the two.
//
// The model executes the rules of package protocol on its own implementation of protocol.Tx
// (modeltx.go). A store must not share this implementation, because a mistake in it would then be
// on both sides of the comparison. The model has no indexes. It implements the order of claims,
// sessions, recoveries, purge times, limits and fair shares without package protocol.
package history

import (
	"cmp"
	"errors"
	"flag"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

const (
	defaultChecks = 100
	defaultSteps  = 60
	// historyTTL is chosen so that no lease ends exactly at a time of the clock. At that time a
	// store may treat the lease as valid or as expired.
	historyTTL = suite.TTL + 5*time.Millisecond
	// repeatable is the number of past requests that may be sent again.
	repeatable = 20
)

var historyRoutes = []store.Route{suite.Orders, suite.Refunds}

// Run executes random histories on the store and on the model. After each operation it compares the
// whole state if the store shows its state. Otherwise it compares the answers for all runs,
// workflow IDs and sessions of the model.
func Run(t *testing.T, cfg suite.Config) {
	t.Helper()
	setFlag(t, "rapid.checks", cmp.Or(cfg.Checks, defaultChecks))
	setFlag(t, "rapid.steps", defaultSteps)
	rapid.Check(t, func(rt *rapid.T) {
		h := newHistory(suite.NewHarness(t, rt, cfg))
		h.limits.on = suite.Has[store.Limiter](h.Store) && h.Shows() && chance(rt, "limits", 50)
		h.limits.fair = h.limits.on && chance(rt, "shares", 50)
		actions := map[string]func(*rapid.T){
			"":             func(*rapid.T) { h.compare() },
			"create":       h.drawCreate,
			"fairRuns":     h.drawFairRuns,
			"gather":       h.drawCollect,
			"openSession":  h.drawOpenSession,
			"heartbeat":    h.drawHeartbeat,
			"closeSession": h.drawCloseSession,
			"claim":        h.drawClaim,
			"claimRun":     h.drawClaimRun,
			"due":          h.drawDue,
			"commit":       h.drawCommit,
			"commitMore":   h.drawCommit, // twice, to make commits the most frequent action
			"handOn":       h.drawHandOn,
			"release":      h.drawRelease,
			"publish":      h.drawPublish,
			"readStream":   h.drawReadStream,
			"deliver":      h.drawDeliver,
			"outbox":       h.drawOutbox,
			"mark":         h.drawMark,
			"confirm":      h.drawConfirm,
			"delete":       h.drawDelete,
			"setLimits":    h.drawSetLimits,
			"purge":        h.drawPurge,
			"wait":         h.drawWait,
			"read":         h.drawRead,
			"find":         h.drawFind,
			"again":        h.drawAgain,
			"advance":      h.drawAdvance,
		}
		if h.limits.on && chance(rt, "permits are handed on", 40) {
			maps.DeleteFunc(actions, func(name string, _ func(*rapid.T)) bool { return !slices.Contains(ofPermits, name) })
		}
		rt.Repeat(actions)
	})
}

// ofPermits contains the actions of histories that mainly move permits from run to run.
var ofPermits = []string{"", "handOn", "setLimits", "openSession", "closeSession", "claim", "claimRun", "due", "deliver", "wait", "again", "advance"}

// setFlag sets a flag of rapid for this test, unless the user has set it.
func setFlag(t *testing.T, name string, n int) {
	t.Helper()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == name })
	if set {
		return
	}
	f := flag.Lookup(name)
	before := f.Value.String()
	if err := f.Value.Set(strconv.Itoa(n)); err != nil {
		t.Fatalf("set flag %s: %v", name, err)
	}
	t.Cleanup(func() { _ = f.Value.Set(before) })
}

// history sends the same requests to a store and to its model.
type history struct {
	*suite.Harness
	m        *model
	logs     []*suite.Log // the logs of all runs, and of one run that is never created
	ghost    *suite.Log
	items    []store.Item
	sessions []store.Session
	fences   []store.Fence // all fences that the store has granted
	used     map[time.Time]bool
	sent     []func() // requests that may be repeated, or sent late for the first time
	emptied  []store.Route
	// unsure contains routes without ready runs whose wakes the store may have removed, if the
	// store does not show its wakes.
	unsure map[store.Route]bool

	read      []store.Outgoing // all records that the outbox has returned
	confirmed map[event.ItemID]bool
	limits    limitHistory
}

func newHistory(h *suite.Harness) *history {
	ghost := h.NewLog(suite.Orders, "")
	ghost.Create()
	h.Invents = true
	return &history{
		Harness: h, m: newModel(h.Clock), ghost: ghost, logs: []*suite.Log{ghost},
		limits: limitHistory{asked: map[store.Route]bool{}},
		fences: []store.Fence{{}}, used: map[time.Time]bool{}, confirmed: map[event.ItemID]bool{}, unsure: map[store.Route]bool{},
	}
}

// request executes a request or delays it, and keeps it so that drawAgain can execute it.
func (h *history) request(t *rapid.T, do func()) {
	if !chance(t, "delayed", 10) {
		do()
	}
	h.sent = append(h.sent, do)
	if len(h.sent) > repeatable {
		h.sent = h.sent[1:]
	}
}

// drawAgain executes a kept request, as if its answer had been lost or the request had been
// delayed.
func (h *history) drawAgain(t *rapid.T) {
	if len(h.sent) > 0 {
		h.sent[rapid.IntRange(0, len(h.sent)-1).Draw(t, "request")]()
	}
}

// chance draws true with a probability of percent in 100.
func chance(t *rapid.T, what string, percent int) bool {
	return rapid.IntRange(1, 100).Draw(t, what) > 100-percent
}

// sameError fails the test unless the two errors are equal for a caller that does not read error
// texts.
func (h *history) sameError(what string, got, want error) {
	h.Helper()
	h.Equal("error of "+what, known(got), known(want))
}

// known returns the error of package store that err wraps, or err if there is none.
func known(err error) error {
	for _, e := range []error{
		store.ErrClosed, store.ErrRunNotFound, store.ErrFenced, store.ErrUnread, store.ErrExpired,
		store.ErrOwned, store.ErrNotClaimable, store.ErrLater, store.ErrStale, store.ErrStreamClosed,
	} {
		if errors.Is(err, e) {
			return e
		}
	}
	if e, ok := errors.AsType[*store.TerminalError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*store.NotEndedError](err); ok {
		return e
	}
	if e, ok := errors.AsType[*store.ConflictError](err); ok {
		return e
	}
	return err
}

// log draws the log of a run. It prefers runs for which preferred returns true.
func (h *history) log(t *rapid.T, preferred func(r *modelRun) bool) *suite.Log {
	all := h.logs
	if !chance(t, "any run", 10) {
		var some []*suite.Log
		for _, l := range h.logs {
			if r := h.m.runs[l.Run]; r != nil && preferred(r) {
				some = append(some, l)
			}
		}
		if len(some) > 0 {
			all = some
		}
	}
	return all[rapid.IntRange(0, len(all)-1).Draw(t, "run")]
}

// session draws a session, preferably a recent one. The session may have ended.
func (h *history) session(t *rapid.T) store.Session {
	if len(h.sessions) == 0 {
		return store.Session{ID: "nobody"}
	}
	last := h.sessions[max(0, len(h.sessions)-5):] // the sessions that are probably live
	if chance(t, "any session", 10) {
		last = h.sessions
	}
	return last[rapid.IntRange(0, len(last)-1).Draw(t, "session")]
}

func (h *history) live(s store.SessionID) bool {
	_, ok := h.m.leases[s]
	return ok
}

// later draws a due time that no other run has, because a store may make runs with equal due times
// ready in any order.
func (h *history) later(t *rapid.T) time.Time {
	at := h.Clock.Now().Add(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 35 * time.Second, 10 * time.Minute}).Draw(t, "due in"))
	for h.used[at] {
		at = at.Add(time.Millisecond)
	}
	h.used[at] = true
	return at
}

func (h *history) drawAdvance(t *rapid.T) {
	if s := h.session(t).ID; h.live(s) && chance(t, "others are silent", 20) {
		for range 7 {
			h.Clock.Advance(5 * time.Second)
			h.Heartbeat(s)
			_, _ = h.m.heartbeat(s)
		}
		return
	}
	h.Clock.Advance(rapid.SampledFrom([]time.Duration{10 * time.Millisecond, time.Second, 20 * time.Second, 40 * time.Second, store.Horizon}).Draw(t, "time"))
}

func (h *history) drawCreate(t *rapid.T) {
	wid := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "workflow id")
	if wid != "" {
		wid = h.WorkflowID(wid)
	}
	l := h.NewLog(rapid.SampledFrom(historyRoutes).Draw(t, "route"), wid)
	if chance(t, "tagged", 30) {
		l.Spec.Tags = map[string]string{"tag": rapid.SampledFrom([]string{"x", "y"}).Draw(t, "tag")}
	}
	if chance(t, "child", 20) {
		l.Spec.Parent, l.Spec.Root = h.ghost.Run, h.ghost.Run
	}
	l.Spec.Retention = h.retention(t)
	c := l.Create()
	c.Priority = rapid.IntRange(-1, 1).Draw(t, "priority")
	c.Active = rapid.SampledFrom([]store.ActivePolicy{store.ActiveUse, store.ActiveFail, store.ActiveCancel, store.ActiveQueue, store.ActiveLatest}).Draw(t, "active")
	c.Finished = rapid.SampledFrom([]store.FinishedPolicy{store.FinishedAllow, store.FinishedAllowFailure, store.FinishedReject}).Draw(t, "finished")
	c.Cancel = h.Item()
	if chance(t, "delayed", 30) {
		c.At = h.later(t)
	}
	if chance(t, "created", 20) {
		c.CreatedBy = h.IDs.Item()
	}
	if chance(t, "deadline", 10) {
		c.Deadline = h.deadline(t)
	}
	h.drawUses(t, &c)
	h.drawFair(t, &c)
	if chance(t, "owned", 30) {
		c.Owner = &store.Owner{Session: h.session(t).ID, Token: h.IDs.Token()}
		h.fences = append(h.fences, c.Owner.Fence())
	}
	for range rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "items") {
		i := h.Item()
		i.Scope = store.Scope(rapid.IntRange(0, 1).Draw(t, "scope"))
		if len(h.items) > 0 && chance(t, "known item", 20) {
			i = rapid.SampledFrom(h.items).Draw(t, "item")
		}
		c.Items = append(c.Items, i)
		h.items = append(h.items, i)
	}
	h.logs = append(h.logs, l)
	h.request(t, func() {
		h.adoptAway()
		got, want := h.Create(c), h.m.create(c)
		if r := h.m.runs[c.Run]; r != nil && r.Waits() {
			want.Waits = got.Waits // the comparison of states checks this time
		}
		h.Equal("create", got, want)
	})
}

// drawCollect draws a start that shares a run with other starts. The start is not repeated after
// store.Horizon, because the store may then have forgotten it. Its times are drawn so that few runs
// are due at the same time.
func (h *history) drawCollect(t *rapid.T) {
	key := h.WorkflowID(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"))
	route := rapid.SampledFrom(historyRoutes).Draw(t, "route")
	l := suite.NewLog(h.IDs, h.Clock, h.IDs.Run(h.Clock.Now(), event.SlotOf(key)), event.Spec{
		Workflow: route.Workflow, Queue: route.Queue, Retention: h.retention(t),
	})
	c := l.Create()
	g := store.Collect{Key: key, Quiet: h.later(t).Sub(h.Clock.Now()), Keep: chance(t, "keep", 50)}
	if chance(t, "most", 50) {
		g.Most = h.later(t).Sub(h.Clock.Now())
	}
	if g.Keep {
		g.Full = rapid.IntRange(0, 4).Draw(t, "full")
	}
	i := h.Item()
	c.Collect, c.Items, c.Priority = &g, []store.Item{i}, rapid.IntRange(-1, 1).Draw(t, "priority")
	h.logs = append(h.logs, l)
	drawn := h.Clock.Now()
	h.request(t, func() {
		if h.Clock.Now().Sub(drawn) < store.Horizon {
			h.Equal("gather", h.Create(c), h.m.create(c))
			h.items = append(h.items, i) // after the create, so that no delivery draws an item with this ID before it
		}
	})
}

func (h *history) drawDeliver(t *rapid.T) {
	l := h.log(t, func(r *modelRun) bool { return r.QueueState != store.StateEnded || r.Next != "" })
	i := h.Item()
	i.Scope = store.Scope(rapid.IntRange(0, 1).Draw(t, "scope"))
	if len(h.items) > 0 && chance(t, "known item", 20) {
		i = rapid.SampledFrom(h.items).Draw(t, "item")
	}
	h.items = append(h.items, i)
	d := store.Deliver{Run: l.Run, Item: i, Keep: chance(t, "keep", 40), Urgent: chance(t, "urgent", 10)}
	if chance(t, "deadline", 20) {
		d.Deadline = h.deadline(t)
	}
	h.request(t, func() {
		if h.confirmed[d.Item.ID] {
			return // a relay never sends a confirmed item again
		}
		got, err := h.Store.Deliver(h.Ctx, d)
		want, wantErr := h.m.deliver(d)
		h.sameError("deliver", err, wantErr)
		h.Equal("deliver", got, want)
	})
}

// deadline draws a deadline that has passed or will pass soon.
func (h *history) deadline(t *rapid.T) time.Time {
	return h.Clock.Now().Add(rapid.SampledFrom([]time.Duration{-time.Millisecond, 15*time.Second + 5*time.Millisecond}).Draw(t, "deadline"))
}

// fence draws the fence of a run, or in a few cases another fence.
func (h *history) fence(t *rapid.T, l *suite.Log) store.Fence {
	fence := store.Fence{}
	if r := h.m.runs[l.Run]; r != nil {
		fence = r.Fence
	}
	if chance(t, "wrong fence", 15) {
		fence = rapid.SampledFrom(append(slices.Clone(h.fences), store.Fence{Epoch: fence.Epoch}, store.Fence{Epoch: fence.Epoch + 1, Token: fence.Token})).Draw(t, "fence")
	}
	return fence
}

func (h *history) drawRelease(t *rapid.T) {
	l := h.log(t, isOwned)
	fence := h.fence(t, l)
	h.request(t, func() {
		h.sameError("release", h.Store.Release(h.Ctx, l.Run, fence), h.m.release(l.Run, fence))
	})
}

func isOwned(r *modelRun) bool { return r.QueueState == store.StateOwned }
