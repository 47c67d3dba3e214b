package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/internal/testutil/repairtest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// decayed is a test case: a scene, the damage to the keys of the scene, and the expected repair.
type decayed struct {
	scene  func(w *repairtest.World) *repairtest.Scene
	damage func(k *keysOfScene)
	want   repairtest.Want
}

// keysOfScene contains the keys of a scene. Its methods damage them.
type keysOfScene struct {
	*partition

	first  *partition
	other  *partition // partition of the second run
	w      *repairtest.World
	t      *testing.T
	ctx    context.Context
	client redis.UniversalClient
	scene  *repairtest.Scene
	run    string
	route  string
}

// do executes a command, and fails the test if the command changes nothing.
func (k *keysOfScene) do(args ...any) {
	k.t.Helper()
	n, err := k.client.Do(k.ctx, args...).Result()
	if err != nil || n == int64(0) && !strings.EqualFold(args[0].(string), "hset") {
		k.t.Fatalf("%v: %v, %v", args, n, err)
	}
}

// open returns the key of the set of open runs that contains the run, and done the key of the set
// of completed runs. Runs with a parent have their own sets.
func (k *keysOfScene) open() string { return k.openRuns(k.route, k.child()) }

func (k *keysOfScene) done() string {
	return k.doneRuns(k.route, k.child(), outcomeOf(event.StatusCompleted))
}

func (k *keysOfScene) child() bool { return k.client.HExists(k.ctx, k.meta(k.run), "u").Val() }

// del deletes keys, and fails the test if a key does not exist.
func (k *keysOfScene) del(keys ...string) {
	k.t.Helper()
	for _, key := range keys {
		k.do("del", key)
	}
}

// setMeta changes fields of the metadata of the run.
func (k *keysOfScene) setMeta(pairs ...any) { k.do(append([]any{"hset", k.meta(k.run)}, pairs...)...) }

func (d decayed) repairs(t *testing.T) {
	t.Helper()
	t.Parallel()
	d.repairsOn(t, redistest.Shared(t).Client(t))
}

func (d decayed) repairsOn(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	clock := storetest.NewClock()
	st, err := New(client, Config{Clock: clock, Prefix: redistest.Prefix(), Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	sweep(t, client, st)
	w := repairtest.New(t, st, clock)
	w.Dump = func() any { return dump(w.Ctx, t, client, st) }
	s := d.scene(w)
	p := st.partitionOf(s.Run)
	k := &keysOfScene{partition: p, first: st.parts[0], other: st.partitionOf(cmp.Or(s.Other, s.Run)), w: w, t: t, ctx: w.Ctx, client: client, scene: s, run: short(s.Run)}
	k.route = client.HGet(w.Ctx, p.meta(k.run), "c").Val()
	w.Repairs(s, func() {
		d.damage(k)
		st.names = newNames() // the cache is empty in a new process
	}, d.want)
}

// sweep deletes the keys of a store at the end of the test. Otherwise they would slow down the
// repairs of other tests, which scan all keys of the server.
func sweep(t *testing.T, client redis.UniversalClient, st *Store) {
	t.Helper()
	t.Cleanup(func() { // executed after the store is closed
		for _, name := range namesOf(context.Background(), t, st) {
			if err := client.Unlink(context.Background(), name).Err(); err != nil {
				t.Error(err)
			}
		}
	})
}

// dump returns the values of all keys of a store by name.
func dump(ctx context.Context, t *testing.T, client redis.UniversalClient, st *Store) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range namesOf(ctx, t, st) {
		all[name] = fmt.Sprintf("%x", client.Dump(ctx, name).Val())
	}
	return all
}

// namesOf returns the names of all keys of a store.
func namesOf(ctx context.Context, t *testing.T, st *Store) []string {
	t.Helper()
	var names []string
	for _, p := range st.parts {
		keys, odd, err := st.keysOf(ctx, p)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range odd {
			names = append(names, p.tag+name)
		}
		for _, run := range keys.runs {
			names = append(names, p.meta(run), p.log(run), p.inbox(run), p.seen(run), p.stepData(run), p.audit(run), p.extra(run), p.hidden(run),
				p.sent(run), p.bodies(run), p.streams(run))
		}
		for _, stream := range keys.streams {
			names = append(names, p.tag+"C:"+stream, p.tag+"W:"+stream)
		}
		for _, route := range keys.routes {
			names = append(names, p.ready(route), p.blocked(route))
		}
		for _, session := range keys.sessions {
			names = append(names, p.session(session), p.owned(session), p.unread(session))
		}
		for _, wid := range keys.names {
			names = append(names, p.line(wid))
		}
		for _, group := range keys.groups {
			names = append(names, p.grouped(group))
		}
		for _, label := range keys.labels {
			names = append(names, p.labelled(label))
		}
		for _, one := range partitionKeys {
			names = append(names, p.tag+string(one))
		}
	}
	return names
}

func starts(w *repairtest.World) *repairtest.Scene   { return w.Created(repairtest.Long("a")...) }
func sleeps(w *repairtest.World) *repairtest.Scene   { return w.Sleeping(repairtest.Long("a")...) }
func waits(w *repairtest.World) *repairtest.Scene    { return w.Waiting() }
func unread(w *repairtest.World) *repairtest.Scene   { return w.Unread() }
func owned(w *repairtest.World) *repairtest.Scene    { return w.Owned(w.Sleeping()) }
func blocked(w *repairtest.World) *repairtest.Scene  { return w.Blocked(w.Sleeping()) }
func complete(w *repairtest.World) *repairtest.Scene { return w.Completed(repairtest.Long("a")...) }
func queued(w *repairtest.World) *repairtest.Scene   { return w.Queued("a") }

// deletes returns a run that has completed and was deleted.
func deletes(w *repairtest.World) *repairtest.Scene {
	s := complete(w)
	if err := ops.New(w.Client).Delete(w.Ctx, s.Run); err != nil {
		w.T.Fatal(err)
	}
	return s
}

// revived restores the state of an ended run from before its end.
func revived(k *keysOfScene) {
	done := k.doneRuns(k.route, k.child(), outcomeOf(unpackHeader(k.client.HGet(k.ctx, k.meta(k.run), "H").Val()).status))
	k.setHeader(func(h *header) { h.queueState, h.status = store.StateParked, event.StatusRunning })
	k.setMeta("p", "0")
	k.do("zrem", done, k.run)
	k.do("zrem", k.purges(), k.run)
	k.do("zadd", k.open(), k.client.HGet(k.ctx, k.meta(k.run), "a").Val(), k.run)
}

// lostTimer removes the timer of the run.
func lostTimer(k *keysOfScene) { k.do("zrem", k.timers(), k.run) }

func wrong(invariant int, reason store.Reason) repairtest.Want {
	return repairtest.Want{Invariants: []int{invariant}, Reason: reason}
}

func TestREC3_Timeout(t *testing.T) {
	decayed{func(w *repairtest.World) *repairtest.Scene {
		s := w.Sleeping() // the retention of the run exceeds the two hours that pass
		w.Clock.Advance(2 * time.Hour)
		return s
	}, lostTimer, wrong(7, store.ReasonTimeout)}.repairs(t)
}

func TestREC3_TimeoutOfTheRun(t *testing.T) {
	decayed{func(w *repairtest.World) *repairtest.Scene {
		s := w.Sleeping(workflow.WithRunTimeout(30 * time.Minute))
		s.Want = "failed"
		w.Clock.Advance(2 * time.Hour)
		return s
	}, lostTimer, wrong(7, store.ReasonTimeout)}.repairs(t)
}

func TestREC3_StuckCreated(t *testing.T) {
	decayed{starts, func(k *keysOfScene) { k.del(k.ready(k.route)) }, wrong(5, store.ReasonStuckCreated)}.repairs(t)
}

func TestREC3_StuckCompleted(t *testing.T) {
	decayed{func(w *repairtest.World) *repairtest.Scene { return w.Completed() }, revived, wrong(4, store.ReasonStuckCompleted)}.repairs(t)
}

func TestREC3_StuckFailed(t *testing.T) {
	decayed{(*repairtest.World).Failed, revived, wrong(4, store.ReasonStuckFailed)}.repairs(t)
}

func TestREC3_StuckTerminal(t *testing.T) {
	decayed{(*repairtest.World).Canceled, revived, wrong(4, store.ReasonStuckTerminal)}.repairs(t)
	t.Run("timed", func(t *testing.T) {
		decayed{complete, func(k *keysOfScene) { k.do("zadd", k.timers(), 1, k.run) }, wrong(8, store.ReasonStuckTerminal)}.repairs(t)
	})
}

func TestREC3_NoClaim(t *testing.T) {
	decayed{owned, func(k *keysOfScene) { k.del(k.owned(sessionCode(k.scene.Session))) }, wrong(5, store.ReasonNoClaim)}.repairs(t)
}

func TestREC3_StuckRunning(t *testing.T) {
	decayed{unread, func(k *keysOfScene) {
		k.del(k.ready(k.route))
		k.setHeader(func(h *header) { h.queueState = store.StateParked })
		k.setMeta("p", "0")
	}, wrong(7, store.ReasonStuckRunning)}.repairs(t)
}

func TestREC3_RetryAfterFailure(t *testing.T) {
	decayed{(*repairtest.World).Retrying, lostTimer, wrong(7, store.ReasonRetryAfterFailure)}.repairs(t)
}

// TestREC8_RepairsWhatEvictedKeysLeave proves that a repair corrects the loss of any single key, as
// on a server that evicts keys.
func TestREC8_RepairsWhatEvictedKeysLeave(t *testing.T) {
	ownedUnread := func(w *repairtest.World) *repairtest.Scene { return w.Owned(w.Unread()) }
	evicted := map[string]decayed{
		"m of a run that sleeps": {sleeps, func(k *keysOfScene) { k.del(k.meta(k.run)) },
			repairtest.Want{Invariants: []int{1, 2, 4, 5, 7, 9}, Reason: store.ReasonStuckRunning}},
		"m of a run that was created": {starts, func(k *keysOfScene) { k.del(k.meta(k.run)) },
			repairtest.Want{Invariants: []int{1, 4, 5, 9}, Reason: store.ReasonStuckCreated}},
		"m of a run that has completed": {complete, func(k *keysOfScene) { k.del(k.meta(k.run)) },
			repairtest.Want{Invariants: []int{1, 2, 4, 5, 8, 9}, Reason: store.ReasonStuckCompleted}},
		"m of a run with items": {ownedUnread, func(k *keysOfScene) { k.del(k.meta(k.run)) },
			repairtest.Want{Invariants: []int{1, 2, 4, 5, 6}, Reason: store.ReasonStuckRunning}},
		"l": {sleeps, func(k *keysOfScene) { k.del(k.log(k.run)) },
			repairtest.Want{Invariants: []int{1}, Remaining: []int{1}, Reason: store.ReasonDamagedLog, Stays: true}},
		"l and m": {sleeps, func(k *keysOfScene) { k.del(k.log(k.run), k.meta(k.run)) }, repairtest.Want{Invariants: []int{16}, Stays: true}},
		"i":       {ownedUnread, func(k *keysOfScene) { k.del(k.inbox(k.run)) }, repairtest.Want{Invariants: []int{6}, Reason: store.ReasonWrongRecord, Stays: true}},
		"s":       {unread, func(k *keysOfScene) { k.del(k.seen(k.run)) }, wrong(10, store.ReasonWrongRecord)},
		"n": {func(w *repairtest.World) *repairtest.Scene { return withStepData(w) }, func(k *keysOfScene) { k.del(k.stepData(k.run)) },
			repairtest.Want{}},
		"j":      {func(w *repairtest.World) *repairtest.Scene { return recovered(w) }, func(k *keysOfScene) { k.del(k.audit(k.run)) }, wrong(17, store.ReasonWrongRecord)},
		"x":      {sleeps, func(k *keysOfScene) { k.del(k.extra(k.run)) }, repairtest.Want{Invariants: []int{4, 25}, Reason: store.ReasonWrongRecord}},
		"g":      {deletes, func(k *keysOfScene) { k.del(k.hidden(k.run)) }, repairtest.Want{Invariants: []int{1, 2, 4, 5, 8}, Reason: store.ReasonStuckCompleted, Stays: true}},
		"r":      {starts, func(k *keysOfScene) { k.del(k.ready(k.route)) }, wrong(5, store.ReasonStuckCreated)},
		"b":      {blocked, func(k *keysOfScene) { k.del(k.blocked(k.route)) }, wrong(5, store.ReasonWrongRecord)},
		"z":      {owned, func(k *keysOfScene) { k.del(k.session(sessionCode(k.scene.Session))) }, wrong(6, store.ReasonNoClaim)},
		"o":      {owned, func(k *keysOfScene) { k.del(k.owned(sessionCode(k.scene.Session))) }, wrong(5, store.ReasonNoClaim)},
		"a":      {ownedUnread, func(k *keysOfScene) { k.del(k.unread(sessionCode(k.scene.Session))) }, wrong(6, store.ReasonWrongRecord)},
		"q":      {queued, func(k *keysOfScene) { k.del(k.line("a")) }, repairtest.Want{Invariants: []int{9}, Run: "other", Reason: store.ReasonWrongRecord}},
		"t":      {sleeps, func(k *keysOfScene) { k.del(k.timers()) }, wrong(7, store.ReasonStuckRunning)},
		"e":      {owned, func(k *keysOfScene) { k.del(k.leases()) }, repairtest.Want{Invariants: []int{6}, Keeps: true}},
		"w":      {starts, func(k *keysOfScene) { k.del(k.wakes()) }, wrong(15, store.ReasonStuckCreated)},
		"k":      {sleeps, func(k *keysOfScene) { k.del(k.routes()) }, wrong(4, store.ReasonWrongRecord)},
		"u":      {sleeps, func(k *keysOfScene) { k.del(k.active()) }, wrong(9, store.ReasonWrongRecord)},
		"v":      {complete, func(k *keysOfScene) { k.del(k.latest()) }, repairtest.Want{Invariants: []int{9}}},
		"p":      {sleeps, func(k *keysOfScene) { k.del(k.open()) }, wrong(8, store.ReasonWrongRecord)},
		"f":      {complete, func(k *keysOfScene) { k.del(k.done()) }, wrong(8, store.ReasonStuckTerminal)},
		"d":      {complete, func(k *keysOfScene) { k.del(k.purges()) }, wrong(8, store.ReasonStuckTerminal)},
		"format": {complete, func(k *keysOfScene) { k.del(k.first.format()) }, repairtest.Want{Invariants: []int{16}}},
		"c":      {starts, func(k *keysOfScene) { k.del(k.counter()) }, repairtest.Want{Invariants: []int{5}}},
		"O":      {parent, func(k *keysOfScene) { k.del(k.sent(k.run)) }, wrong(12, store.ReasonWrongRecord)},
		"B":      {parent, func(k *keysOfScene) { k.del(k.bodies(k.run)) }, wrong(12, store.ReasonWrongRecord)},
		"D":      {parent, func(k *keysOfScene) { k.del(k.outbox()) }, repairtest.Want{Invariants: []int{12}}},
		"G":      {continued, func(k *keysOfScene) { k.del(k.held()) }, wrong(8, store.ReasonStuckTerminal)},
		"S":      {streaming, func(k *keysOfScene) { k.del(k.streams(k.run)) }, repairtest.Want{Invariants: []int{18}}},
		"C":      {streaming, func(k *keysOfScene) { k.del(k.chunks(k.run, "a:b")) }, repairtest.Want{Invariants: []int{18}}},
		"W":      {streaming, func(k *keysOfScene) { k.del(k.writers(k.run, "a:b")) }, repairtest.Want{}},
		"T":      {continued, func(k *keysOfScene) { k.del(k.latestOfChains()) }, repairtest.Want{Invariants: []int{11}}},
		"h":      {continued, func(k *keysOfScene) { k.del(k.chains()) }, repairtest.Want{Invariants: []int{8, 16}}},
		"M":      {func(w *repairtest.World) *repairtest.Scene { return w.Sleeping(workflow.WithID("a")) }, func(k *keysOfScene) { k.del(k.labelled(labelCode(store.Label{WorkflowID: "a"}))) }, wrong(25, store.ReasonWrongRecord)},
	}
	for _, kind := range "mlsinjxgrbzoaqtewkuvpfdcOBDGThSCWM" {
		if !slices.ContainsFunc(sortedKeys(evicted), func(name string) bool { return name[0] == byte(kind) }) {
			t.Errorf("no case for keys of kind %c", kind)
		}
	}
	repairtest.Each(t, evicted, func(t *testing.T, d decayed) { d.repairs(t) })
}

// withStepData returns a run whose step has stored step data for its next attempt.
func withStepData(w *repairtest.World) *repairtest.Scene {
	w.T.Helper()
	s := w.Owned(w.Sleeping())
	if err := w.Store.(store.StepDataStore).SetStepData(w.Ctx, s.Run, w.Record(s.Run).Fence, "key", []byte("data"), false); err != nil {
		w.T.Fatal(err)
	}
	return recovers(w, s)
}

// recovered returns a run that was recovered once because the session of its owner expired.
func recovered(w *repairtest.World) *repairtest.Scene { return recovers(w, w.Owned(w.Sleeping())) }

func recovers(w *repairtest.World, s *repairtest.Scene) *repairtest.Scene {
	w.T.Helper()
	if err := w.Store.CloseSession(w.Ctx, w.Partition(s.Run), s.Session); err != nil {
		w.T.Fatal(err)
	}
	return s
}

func TestREC8_RepairsWhatIsKeptOfARun(t *testing.T) {
	repairtest.Each(t, map[string]decayed{
		"1 the log is ahead": {sleeps, func(k *keysOfScene) {
			k.setHeader(func(h *header) { h.frames, h.seq, h.last = 1, 1, event.CommitID{1} })
		}, wrong(1, store.ReasonStuckRunning)},
		"1 a frame is missing":         {unread, func(k *keysOfScene) { k.do("xdel", k.log(k.run), "2-0") }, repairtest.Want{Invariants: []int{1}, Remaining: []int{1}, Reason: store.ReasonDamagedLog, Stays: true}},
		"1 the last frame is missing":  {sleeps, func(k *keysOfScene) { k.do("xtrim", k.log(k.run), "maxlen", 1) }, repairtest.Want{Invariants: []int{1}, Remaining: []int{1}, Reason: store.ReasonDamagedLog, Stays: true}},
		"2 the epoch was given before": {sleeps, func(k *keysOfScene) { k.setHeader(func(h *header) { h.fence.Epoch = 0 }) }, wrong(2, store.ReasonStuckRunning)},
		"4 the status":                 {sleeps, func(k *keysOfScene) { k.setHeader(func(h *header) { h.status = event.StatusFailed }) }, wrong(4, store.ReasonWrongRecord)},
		"4 the root of an owned run":   {owned, func(k *keysOfScene) { k.setMeta("x", "wrun_x") }, repairtest.Want{Invariants: []int{4}, Reason: store.ReasonWrongRecord}},
		"5 no state":                   {sleeps, func(k *keysOfScene) { k.setHeader(func(h *header) { h.queueState = 0 }) }, repairtest.Want{Invariants: []int{5, 7}, Reason: store.ReasonStuckRunning}},
		"5 in two ready sets":          {starts, func(k *keysOfScene) { k.do("zadd", k.ready("other"), 0, "00000000000001"+k.run) }, repairtest.Want{Invariants: []int{5, 15}, Reason: store.ReasonStuckCreated}},
		"5 owned by two":               {owned, func(k *keysOfScene) { k.do("sadd", k.owned("other"), k.run) }, repairtest.Want{Invariants: []int{5, 6}, Reason: store.ReasonWrongRecord}},
		"5 blocked elsewhere":          {waits, func(k *keysOfScene) { k.do("zadd", k.blocked("other"), 0, "x "+k.run) }, wrong(5, store.ReasonWrongRecord)},
		"4 the workflow id of commits": {unread, func(k *keysOfScene) { k.setHeader(func(h *header) { h.wid = digest{1} }) }, wrong(4, store.ReasonWrongRecord)},
		"4 its retention":              {unread, func(k *keysOfScene) { k.setHeader(func(h *header) { h.flags ^= hasRetention }) }, wrong(4, store.ReasonWrongRecord)},
		"6 items are not told of":      {unread, func(k *keysOfScene) { k.setHeader(func(h *header) { h.flags &^= hasUnread }) }, wrong(6, store.ReasonWrongRecord)},
		"6 items are told of":          {sleeps, func(k *keysOfScene) { k.setHeader(func(h *header) { h.flags |= hasUnread }) }, wrong(6, store.ReasonWrongRecord)},
		"5 the header cannot be read":  {sleeps, func(k *keysOfScene) { k.setMeta("H", "x") }, repairtest.Want{Invariants: []int{1, 2, 5, 7}, Reason: store.ReasonStuckRunning}},
		"7 a timer is late":            {sleeps, func(k *keysOfScene) { k.do("zincrby", k.timers(), 1000, k.run) }, wrong(7, store.ReasonStuckRunning)},
		"5 blocked by others":          {blocked, func(k *keysOfScene) { k.setMeta("F", "of another one..") }, wrong(5, store.ReasonWrongRecord)},
		"8 step data after the end":    {complete, func(k *keysOfScene) { k.do("hset", k.stepData(k.run), "key", "data") }, wrong(8, store.ReasonStuckTerminal)},
		"8 it is open and done": {sleeps, func(k *keysOfScene) {
			k.do("zadd", k.done(), k.client.HGet(k.ctx, k.meta(k.run), "a").Val(), k.run)
		}, wrong(8, store.ReasonWrongRecord)},
		"8 an open run is not where it was created": {sleeps, func(k *keysOfScene) { k.do("zincrby", k.open(), 1, k.run) }, wrong(8, store.ReasonWrongRecord)},
		"8 a done run is not where it was created":  {complete, func(k *keysOfScene) { k.do("zincrby", k.done(), -1, k.run) }, wrong(8, store.ReasonStuckTerminal)},
		"10 an item is unread twice": {unread, func(k *keysOfScene) {
			k.do("rpush", k.inbox(k.run), k.client.LIndex(k.ctx, k.inbox(k.run), 0).Val())
		}, wrong(10, store.ReasonWrongRecord)},
		"10 an item cannot be read":      {unread, func(k *keysOfScene) { k.do("lpush", k.inbox(k.run), "x") }, wrong(10, store.ReasonWrongRecord)},
		"17 recoveries that nobody made": {sleeps, func(k *keysOfScene) { k.setHeader(func(h *header) { h.recoveries = 4 }) }, wrong(17, store.ReasonWrongRecord)},
	}, func(t *testing.T, d decayed) { d.repairs(t) })
}

func TestREC8_RepairsWhatLeadsToARun(t *testing.T) {
	stranger := short(event.NewRunID(time.Now(), 0))
	repairtest.Each(t, map[string]decayed{
		"9 an ended run is active":   {complete, func(k *keysOfScene) { k.do("hset", k.active(), k.client.HGet(k.ctx, k.meta(k.run), "w").Val(), k.run) }, wrong(9, store.ReasonWrongRecord)},
		"9 a line has no active run": {queued, func(k *keysOfScene) { k.do("hdel", k.active(), "a") }, wrong(9, store.ReasonWrongRecord)},
		"6 a lease of no session":    {complete, func(k *keysOfScene) { k.do("zadd", k.leases(), 1893553445123, "x") }, repairtest.Want{Invariants: []int{6}}},
		"16 a chain is miscounted":   {complete, func(k *keysOfScene) { k.do("hset", k.chains(), k.run, 2) }, repairtest.Want{Invariants: []int{8, 16}}},
		"16 a run that does not exist": {complete, func(k *keysOfScene) {
			for _, key := range []string{k.timers(), k.purges(), k.open(), k.done()} {
				k.do("zadd", key, 1, stranger)
			}
			k.do("hset", k.active(), "x", stranger)
			k.do("hset", k.latest(), "y", stranger)
			k.do("rpush", k.line("x"), stranger)
			k.do("zadd", k.ready(k.route), 0, "00000000000001"+stranger)
			k.do("zadd", k.seen(stranger), 1, "item")
			k.do("rpush", k.inbox(stranger), "x")
			k.do("rpush", k.audit(stranger), "x")
			k.do("set", k.extra(stranger), "x")
			k.do("hset", k.stepData(stranger), "x", "y")
			k.do("hset", k.streams(stranger), "a", "1 1 1 0")
			k.do("xadd", k.chunks(stranger, "a"), "1-0", "f", "x")
			k.do("xadd", k.chunks(stranger, "b"), "1-0", "f", "x")
			k.do("hset", k.writers(stranger, "c"), "w", 1)
		}, repairtest.Want{Invariants: []int{15, 16}}},
		"16 a key of no kind":  {complete, func(k *keysOfScene) { k.do("set", k.tag+"Q:x", "x") }, repairtest.Want{Invariants: []int{16}, Remaining: []int{16}}},
		"16 the copy of a log": {complete, func(k *keysOfScene) { k.do("set", k.tag+"y", "x") }, repairtest.Want{Invariants: []int{16}}},
		"16 a run under a long name": {func(w *repairtest.World) *repairtest.Scene { return w.Sleeping(workflow.WithID("a")) },
			func(k *keysOfScene) { k.do("set", k.extra(k.run), "x") }, wrong(4, store.ReasonWrongRecord)},
	}, func(t *testing.T, d decayed) { d.repairs(t) })
}

func TestREC8_RemovesKeysThatSomebodyElseHasOverwritten(t *testing.T) {
	repairtest.Each(t, map[string]decayed{
		"metadata": {sleeps, func(k *keysOfScene) { k.do("del", k.meta(k.run)); k.do("set", k.meta(k.run), "x") },
			repairtest.Want{Invariants: []int{1, 2, 4, 5, 7, 9, 16}, Reason: store.ReasonStuckRunning}},
		"a log": {sleeps, func(k *keysOfScene) { k.do("del", k.log(k.run)); k.do("set", k.log(k.run), "x") },
			repairtest.Want{Invariants: []int{1, 16}, Reason: store.ReasonDamagedLog, Remaining: []int{1}, Stays: true}},
		"timers": {sleeps, func(k *keysOfScene) { k.do("del", k.timers()); k.do("rpush", k.timers(), "x") },
			repairtest.Want{Invariants: []int{7, 16}, Reason: store.ReasonStuckRunning}},
		"open runs": {sleeps, func(k *keysOfScene) { k.do("del", k.open()); k.do("rpush", k.open(), "x") }, repairtest.Want{Invariants: []int{8, 16}, Reason: store.ReasonWrongRecord}},
	}, func(t *testing.T, d decayed) { d.repairs(t) })
}

func TestREC8_ARebuiltRecordHasThePriorityOfItsLog(t *testing.T) {
	for _, priority := range []int{7, -7} {
		decayed{
			func(w *repairtest.World) *repairtest.Scene {
				s := w.Sleeping(workflow.WithPriority(priority))
				finish := s.Finish
				s.Finish = func() string {
					if got := w.Record(s.Run).Priority; got != priority {
						t.Errorf("priority after the repair: got %d, want %d", got, priority)
					}
					return finish()
				}
				return s
			},
			func(k *keysOfScene) { k.del(k.meta(k.run)) },
			repairtest.Want{Invariants: []int{1, 2, 4, 5, 7}, Reason: store.ReasonStuckRunning},
		}.repairsOn(t, redistest.Shared(t).Client(t))
	}
}

// TestREC8_RepairsOnACluster proves that repairs work on a cluster. A repair uses keys of one slot
// only, and finds them on the node that has the slot.
func TestREC8_RepairsOnACluster(t *testing.T) {
	for name, d := range map[string]decayed{
		"metadata": {sleeps, func(k *keysOfScene) { k.del(k.meta(k.run)) },
			repairtest.Want{Invariants: []int{1, 2, 4, 5, 7, 9}, Reason: store.ReasonStuckRunning}},
		"lines": {queued, func(k *keysOfScene) { k.del(k.line("a")) }, repairtest.Want{Invariants: []int{9}, Run: "other", Reason: store.ReasonWrongRecord}},
	} {
		t.Run(name, func(t *testing.T) { d.repairsOn(t, redistest.SharedCluster(t).Client(t)) })
	}
}

func TestREC8_LeavesAStoreAloneThatIsAtWork(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	client := redistest.Shared(t).Client(t)
	st, err := New(client, Config{Clock: clock, Prefix: redistest.Prefix(), Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	sweep(t, client, st)
	repairtest.New(t, st, clock).Lives(10)
}

func TestREC8_ActsOnNothingThatHasMovedOn(t *testing.T) {
	t.Parallel()
	clock, client := storetest.NewClock(), redistest.Shared(t).Client(t)
	st, err := New(client, Config{Clock: clock, Prefix: redistest.Prefix(), Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	sweep(t, client, st)
	w := repairtest.New(t, st, clock)
	w.Dump = func() any { return dump(w.Ctx, t, client, st) }
	w.Refuses()
}

// TestREC8_ARebuildLeavesNoEntryThatAHeartbeatHasPutBack proves that a rebuild leaves no wrong
// entry of a run. A check finds that an entry is lost, a heartbeat restores the entry, and then the
// rebuild is executed.
func TestREC8_ARebuildLeavesNoEntryThatAHeartbeatHasPutBack(t *testing.T) {
	g := openGuarded(t)
	alive := g.session()
	run := g.start("").Run
	ready := g.parts[0].ready(routeCode(guardedRoute))
	g.loser("r:" + routeCode(guardedRoute))()
	part, err := g.ReadPartition(g.ctx, 0)
	g.check(err)
	g.clock.Advance(5 * time.Second)
	if got := g.beat(alive).Restored; !slices.Equal(got, []event.RunID{run}) {
		t.Fatalf("restored %v, want %v", got, run)
	}
	rec := part.Snapshot.Runs[run].Record
	rec.Fence.Epoch++
	done, err := part.Rebuild(g.ctx, &store.Rebuild{Run: run, Record: &rec, Reasons: []store.Reason{store.ReasonStuckCreated}, By: "late"})
	if got := g.client.ZRange(g.ctx, ready, 0, -1).Val(); err != nil || !done || len(got) != 1 {
		t.Errorf("rebuilt: %v, %v; the ready runs are %q, want one", done, err, got)
	}
	if got := g.claim(alive); !slices.Equal(got, []event.RunID{run}) {
		t.Errorf("claimed %v, want %v", got, run)
	}
}
