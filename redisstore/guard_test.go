package redisstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// guarded is a store whose keys a test may change. It has one partition unless the test opens it
// with more.
type guarded struct {
	*Store

	t     *testing.T
	ctx   context.Context
	clock *storetest.Clock
	ids   *storetest.IDs
}

var guardedRoute = store.Route{Queue: "default", Workflow: "orders.fulfil"}

func openGuarded(t *testing.T) *guarded {
	t.Helper()
	return openGuardedOn(t, redistest.Shared(t).Client(t))
}

func openGuardedOn(t *testing.T, client *redis.Client) *guarded {
	t.Helper()
	return openGuardedIn(t, client, 1)
}

func openGuardedIn(t *testing.T, client redis.UniversalClient, partitions int) *guarded {
	t.Helper()
	clock := storetest.NewClock()
	st, err := New(client, Config{Clock: clock, Prefix: redistest.Prefix(), Partitions: partitions})
	if err != nil {
		t.Fatal(err)
	}
	return guard(t, client, clock, st)
}

func guard(t *testing.T, client redis.UniversalClient, clock *storetest.Clock, st *Store) *guarded {
	t.Helper()
	sweep(t, client, st)
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return &guarded{Store: st, t: t, ctx: ctx, clock: clock, ids: &storetest.IDs{}}
}

func (g *guarded) check(err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatal(err)
	}
}

func (g *guarded) session() store.SessionID {
	g.t.Helper()
	id := g.ids.Session()
	g.check(g.OpenSession(g.ctx, store.Session{ID: id, TTL: time.Minute, Routes: []store.Route{guardedRoute}}))
	return id
}

// start creates a run and returns its log.
func (g *guarded) start(workflowID string, change ...func(*store.Create)) *storetest.Log {
	g.t.Helper()
	slot := uint16(0)
	if workflowID != "" {
		slot = event.SlotOf(workflowID)
	}
	l := storetest.NewLog(g.ids, g.clock, g.ids.Run(g.clock.Now(), slot), event.Spec{
		Workflow: guardedRoute.Workflow, Queue: guardedRoute.Queue, WorkflowID: workflowID,
	})
	c := l.Create()
	for _, f := range change {
		f(&c)
	}
	got, err := g.Create(g.ctx, []store.Create{c})
	g.check(err)
	if !got[0].New {
		g.t.Fatalf("create: got %+v, want a new run", got[0])
	}
	return l
}

// own creates a run and claims it for the session.
func (g *guarded) own(session store.SessionID, workflowID string, change ...func(*store.Create)) (*storetest.Log, store.Fence) {
	g.t.Helper()
	l := g.start(workflowID, change...)
	got, err := g.ClaimRun(g.ctx, 0, session, g.ids.Token(), l.Run)
	g.check(err)
	return l, got.Fence
}

func (g *guarded) answer(c store.Commit) store.Committed {
	g.t.Helper()
	got, err := g.Commit(g.ctx, []store.Commit{c})
	g.check(err)
	return got[0]
}

func (g *guarded) snapshot() *store.Snapshot {
	g.t.Helper()
	snap, err := g.Inspect(g.ctx)
	g.check(err)
	return snap
}

// unchanged calls f and fails the test if f has changed the store.
func (g *guarded) unchanged(what string, f func()) {
	g.t.Helper()
	before := g.snapshot()
	f()
	after := g.snapshot()
	before.Now = after.Now
	if diff := cmp.Diff(before, after, cmpopts.EquateEmpty()); diff != "" {
		g.t.Errorf("%s has changed something (-want +got):\n%s", what, diff)
	}
}

// sound fails the test if fsck reports a defect.
func (g *guarded) sound() {
	g.t.Helper()
	for _, f := range fsck.Check(g.snapshot()) {
		g.t.Errorf("fsck: %v", f)
	}
}

// shapes contains a function for each commit script. The function changes a commit so that the
// store uses this script.
var shapes = map[*script]func(c store.Commit) store.Commit{
	scriptAppend: func(c store.Commit) store.Commit { return c },
	scriptFinish: func(c store.Commit) store.Commit {
		c.Effect, c.Status, c.Progress = store.EffectFinish, event.StatusCompleted, true
		return c
	},
	scriptCommit: func(c store.Commit) store.Commit {
		c.Effect, c.Status = store.EffectYield, event.StatusRunning
		return c
	},
}

// shaped returns a commit for which the store uses script s. The run of the commit has the log l
// and is owned under fence.
func (g *guarded) shaped(s *script, l *storetest.Log, fence store.Fence) store.Commit {
	g.t.Helper()
	events := l.Work()
	if s == scriptFinish {
		events = l.End(event.StatusCompleted)
	}
	c := shapes[s](l.Commit(fence, events...))
	if got := g.commit(&c, &usualCall{}, new(strings.Builder)).script; got != s {
		g.t.Fatalf("the commit is one for %s, want %s", got.name, s.name)
	}
	return c
}

func TestCommit_EachScriptComparesTheFenceAndThePosition(t *testing.T) {
	for s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			g := openGuarded(t)
			l, fence := g.own(g.session(), "")
			g.check(g.answer(l.Commit(fence, l.Work()...)).Err) // adds a frame, so that the last frame has a predecessor
			before := l.Commit(fence).Prev
			for what, wrong := range map[string]func(c *store.Commit){
				"an older epoch":  func(c *store.Commit) { c.Fence.Epoch-- },
				"a newer epoch":   func(c *store.Commit) { c.Fence.Epoch++ },
				"another token":   func(c *store.Commit) { c.Fence.Token = g.ids.Token() },
				"an empty token":  func(c *store.Commit) { c.Fence.Token = event.Token{} },
				"another frame":   func(c *store.Commit) { c.Prev = g.ids.CommitID() },
				"the first frame": func(c *store.Commit) { c.Prev = before },
			} {
				rec := g.loaded(l.Run).Record
				c := g.shaped(s, l, fence)
				c.Prev, c.First, c.Last = rec.Last, rec.Seq+1, rec.Seq+1
				wrong(&c)
				g.unchanged(what, func() {
					err := g.answer(c).Err
					var conflict *store.ConflictError
					switch fenced := c.Fence != fence; {
					case fenced && !errors.Is(err, store.ErrFenced):
						t.Fatalf("%s: got error %v, want %v", what, err, store.ErrFenced)
					case !fenced && !errors.As(err, &conflict):
						t.Fatalf("%s: got error %v, want a conflict", what, err)
					}
				})
			}
		})
	}
}

func (g *guarded) loaded(run event.RunID) store.Loaded {
	g.t.Helper()
	got, err := g.Load(g.ctx, []store.Load{{Run: run, Inbox: true}})
	g.check(err)
	g.check(got[0].Err)
	return got[0]
}

func TestCommit_EachScriptComparesTheSequence(t *testing.T) {
	for s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			g := openGuarded(t)
			l, fence := g.own(g.session(), "")
			for _, by := range []int{-1, 1} {
				c := g.shaped(s, l, fence)
				c.First, c.Last = uint64(int(c.First)+by), uint64(int(c.Last)+by)
				g.unchanged("a commit that does not continue the sequence", func() {
					if err := g.answer(c).Err; !errors.As(err, new(*store.ConflictError)) {
						t.Errorf("%d too far: got error %v, want a conflict", by, err)
					}
				})
			}
		})
	}
}

func TestCommit_EachScriptComparesTheWorkflowID(t *testing.T) {
	for s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			g := openGuarded(t)
			l, fence := g.own(g.session(), "order-1")
			c := l.Commit(fence, l.Work()...)
			if s == scriptFinish {
				c = l.Commit(fence, l.End(event.StatusCompleted)...)
			}
			c = shapes[s](c)
			c.WorkflowID = "" // the short script for ends requires a commit without a workflow ID
			g.unchanged("a commit that does not name the workflow id", func() {
				var wrong *store.WorkflowIDMismatchError
				if err := g.answer(c).Err; !errors.As(err, &wrong) || wrong.Want != "order-1" {
					t.Errorf("got error %v, want one that names the workflow id", err)
				}
			})
		})
	}
}

func TestCommit_EachScriptSetsThePosition(t *testing.T) {
	for s := range shapes {
		t.Run(s.name, func(t *testing.T) {
			g := openGuarded(t)
			session := g.session()
			l, fence := g.own(session, "")
			c := g.shaped(s, l, fence)
			got := g.answer(c)
			g.check(got.Err)
			rec := g.loaded(l.Run).Record
			if rec.N != 2 || got.N != 2 || rec.Seq != c.Last || rec.Last != c.CommitID {
				t.Errorf("position: got %+v after %+v, want frame 2, event %d, %s", rec, got, c.Last, c.CommitID)
			}
			g.sound()
			again := g.answer(c)
			if again.Err != nil || again.N != 2 {
				t.Errorf("the same commit again: got %+v, want that it was applied", again)
			}
			g.sound()
		})
	}
}

func TestFinish_TheShortScriptTakesTheRunFromItsOwner(t *testing.T) {
	g := openGuarded(t)
	session := g.session()
	l, fence := g.own(session, "")
	c := g.shaped(scriptFinish, l, fence)
	g.check(g.answer(c).Err)
	l.Accept(c)
	rec := g.loaded(l.Run).Record
	if rec.QueueState != store.StateEnded || rec.Owner != "" || rec.Fence.Token != (event.Token{}) || rec.Status != event.StatusCompleted {
		t.Fatalf("record: got %+v, want an ended run that nobody owns", rec)
	}
	beat, err := g.Heartbeat(g.ctx, 0, session)
	g.check(err)
	if beat.Owned != 0 {
		t.Errorf("owned: got %d runs, want none", beat.Owned)
	}
	g.unchanged("what comes after the end", func() {
		if err := g.SetStepData(g.ctx, l.Run, fence, "step", []byte("late"), false); !errors.Is(err, store.ErrFenced) {
			t.Errorf("step data: got error %v, want %v", err, store.ErrFenced)
		}
		if err := g.Release(g.ctx, l.Run, fence); !errors.Is(err, store.ErrFenced) {
			t.Errorf("release: got error %v, want %v", err, store.ErrFenced)
		}
	})
	g.sound()
}

func TestFinish_TheShortScriptLeavesARunWithStepDataToTheLongOne(t *testing.T) {
	g := openGuarded(t)
	l, fence := g.own(g.session(), "")
	g.check(g.SetStepData(g.ctx, l.Run, fence, "step", []byte("data"), false))
	g.check(g.answer(g.shaped(scriptFinish, l, fence)).Err)
	if data, err := g.StepData(g.ctx, l.Run); len(data) > 0 || err != nil {
		t.Errorf("step data: got %v, %v, want none", data, err)
	}
	g.sound()
}

func TestFinish_TheShortScriptLeavesARunWithUnreadItemsToTheLongOne(t *testing.T) {
	g := openGuarded(t)
	l, fence := g.own(g.session(), "")
	_, err := g.Deliver(g.ctx, store.Deliver{Run: l.Run, Item: store.Item{ID: "hello", Body: []byte("1")}})
	g.check(err)
	c := g.shaped(scriptFinish, l, fence)
	g.unchanged("a finish with unread items", func() {
		if err := g.answer(c).Err; !errors.Is(err, store.ErrUnread) {
			t.Errorf("got error %v, want %v", err, store.ErrUnread)
		}
	})
}

func TestFinish_TheShortScriptKeepsARunThatIsNeeded(t *testing.T) {
	for what, need := range map[string]func(g *guarded) (*storetest.Log, store.Fence){
		"by who created it": func(g *guarded) (*storetest.Log, store.Fence) {
			return g.own(g.session(), "", func(c *store.Create) { c.CreatedBy = "record" })
		},
		"by its own records": func(g *guarded) (*storetest.Log, store.Fence) {
			l, fence := g.own(g.session(), "")
			c := l.Commit(fence, l.Work()...)
			c.Send = []store.Send{{ID: "record", To: g.start("").Run, Body: []byte("body")}}
			g.check(g.answer(c).Err)
			l.Accept(c)
			return l, fence
		},
		"within the horizon": func(g *guarded) (*storetest.Log, store.Fence) {
			return g.own(g.session(), "", func(c *store.Create) { c.Retention = 1 })
		},
	} {
		t.Run(what, func(t *testing.T) {
			g := openGuarded(t)
			l, fence := need(g)
			c := g.shaped(scriptFinish, l, fence)
			g.check(g.answer(c).Err)
			later := 30 * 24 * time.Hour
			if what == "within the horizon" {
				later = store.Horizon - time.Second
			}
			g.clock.Advance(later)
			if n, _, err := g.Purge(g.ctx, 0, 10); n != 0 || err != nil {
				t.Errorf("purged %d runs, %v, want none", n, err)
			}
			g.loaded(l.Run)
		})
	}
}

func TestFinish_TheShortScriptKeepsARunWhoseCreationMayBeSentAgain(t *testing.T) {
	g := openGuarded(t)
	l, fence := g.own(g.session(), "", func(c *store.Create) { c.Retention = 1 })
	c := g.shaped(scriptFinish, l, fence)
	g.clock.Advance(-time.Hour) // the clock of the server goes back by an hour before the run ends
	g.check(g.answer(c).Err)
	g.clock.Advance(time.Hour + store.Horizon - time.Second)
	if n, _, err := g.Purge(g.ctx, 0, 10); n != 0 || err != nil {
		t.Errorf("purged %d runs, %v, want none", n, err)
	}
	g.clock.Advance(2 * time.Second)
	if n, _, err := g.Purge(g.ctx, 0, 10); n != 1 || err != nil {
		t.Errorf("purged %d runs, %v, want the one", n, err)
	}
}

func TestCommit_DoesNotContinueARunThatIsNotTheActiveOne(t *testing.T) {
	g := openGuarded(t)
	l, fence := g.own(g.session(), "order-1")
	c, next := l.Continue(fence, nil, l.Work()...)
	g.check(g.client.HSet(g.ctx, g.parts[0].active(), "order-1", "another").Err())
	if err := g.answer(c).Err; !errors.As(err, new(*store.ConflictError)) {
		t.Errorf("got error %v, want a conflict", err)
	}
	got, err := g.Load(g.ctx, []store.Load{{Run: next.Run}})
	g.check(err)
	if !errors.Is(got[0].Err, store.ErrRunNotFound) {
		t.Errorf("the new run: got error %v, want that it is not there", got[0].Err)
	}
}
