package memstore_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

var route = store.Route{Queue: "default", Workflow: "orders.fulfil"}

// fixture is a store of one partition with a session.
type fixture struct {
	*memstore.Store
	t       *testing.T
	ids     storetest.IDs
	session store.SessionID
}

func open(t *testing.T, cfg memstore.Config) *fixture {
	t.Helper()
	f := &fixture{Store: memstore.NewWith(cfg), t: t}
	f.session = f.ids.Session()
	f.check(f.OpenSession(t.Context(), store.Session{ID: f.session, TTL: time.Hour}))
	t.Cleanup(func() { f.check(f.Close()) })
	return f
}

func (f *fixture) check(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

// start creates a run that is due after d. If d is 0, the run is ready.
func (f *fixture) start(d time.Duration) *storetest.Log {
	f.t.Helper()
	l := storetest.NewLog(&f.ids, f.Clock(), f.ids.Run(f.Clock().Now(), 0), event.Spec{Workflow: route.Workflow, Queue: route.Queue})
	c := l.Create()
	c.Delay = d
	_, err := f.Create(context.Background(), []store.Create{c})
	f.check(err)
	return l
}

// claim claims one run.
func (f *fixture) claim() store.Fence {
	f.t.Helper()
	got, err := f.Claim(context.Background(), store.Claim{Session: f.session, Token: f.ids.Token(), Routes: []store.Route{route}, Max: 1})
	f.check(err)
	if len(got.Runs) != 1 {
		f.t.Fatalf("claim: got %d runs, want 1", len(got.Runs))
	}
	return got.Runs[0].Fence
}

func (f *fixture) wait(ctx context.Context, until time.Time, routes ...store.Route) (store.Woken, error) {
	return f.Wait(ctx, store.Wait{Sessions: []store.WaitSession{{Session: f.session}}, Routes: routes, Until: until})
}

func TestNew_IsOnePartitionOnTheSystemClock(t *testing.T) {
	s := memstore.New()
	if s.Partitions() != 1 || s.Clock() != store.SystemClock {
		t.Errorf("got %d partitions on %v", s.Partitions(), s.Clock())
	}
	if n := memstore.NewWith(memstore.Config{Partitions: -1}).Partitions(); n != 1 {
		t.Errorf("partitions of -1: got %d, want 1", n)
	}
}

func TestClaim_OfSeveralRoutesTakesThePriorityFirstAndThenTheLongestReady(t *testing.T) {
	f := open(t, memstore.Config{Clock: storetest.NewClock()})
	routes := []store.Route{{Queue: "a"}, {Queue: "b"}, {Queue: "c"}}
	var made []event.RunID
	for n, priority := range []int{0, 0, 3, 0, 2, 2} {
		id := f.ids.Run(f.Clock().Now(), 0)
		c := store.Create{Run: id, Route: routes[n%3], Frame: []byte("frame"), Priority: priority}
		_, err := f.Create(t.Context(), []store.Create{c})
		f.check(err)
		made = append(made, id)
	}
	want := []event.RunID{made[2], made[4], made[5], made[0], made[1], made[3]}
	got, err := f.Claim(t.Context(), store.Claim{Session: f.session, Routes: routes, Max: 10})
	f.check(err)
	var runs []event.RunID
	for _, r := range got.Runs {
		runs = append(runs, r.Run)
	}
	if diff := cmp.Diff(want, runs); diff != "" {
		t.Errorf("claimed (-want +got)\n%s", diff)
	}
}

func TestCreate_RefusesARunThatItsWorkflowIDDoesNotLeadTo(t *testing.T) {
	s := memstore.NewWith(memstore.Config{Partitions: 7})
	slot := event.SlotOf("order")
	for other := range uint16(7) {
		c := store.Create{Run: event.NewRunID(time.Now(), slot+other), WorkflowID: "order"}
		_, err := s.Create(t.Context(), []store.Create{c})
		if (err == nil) != (other == 0) {
			t.Errorf("create in slot %d of workflow id in slot %d: got error %v", slot+other, slot, err)
		}
	}
}

func TestPartitions_AreNamedWithinBounds(t *testing.T) {
	f := open(t, memstore.Config{Partitions: 2})
	for _, n := range []int{-1, 2} {
		if _, err := f.Due(t.Context(), n, 1); err == nil {
			t.Errorf("due of partition %d: got no error", n)
		}
		_, err := f.Wait(t.Context(), store.Wait{Sessions: []store.WaitSession{{Partition: 0}, {Partition: n}}})
		if err == nil {
			t.Errorf("wait in partition %d: got no error", n)
		}
	}
}

func TestPartitions_ServeTheirOwnRuns(t *testing.T) {
	s := memstore.NewWith(memstore.Config{Partitions: 3, Clock: storetest.NewClock()})
	var ids storetest.IDs
	var batch []store.Create
	want := map[int][]event.RunID{}
	for n := range 12 {
		l := storetest.NewLog(&ids, s.Clock(), ids.Run(s.Clock().Now(), uint16(n)), event.Spec{Workflow: route.Workflow, Queue: route.Queue})
		batch = append(batch, l.Create())
		want[n%3] = append(want[n%3], l.Run)
	}
	answers, err := s.Create(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range answers {
		if a.Run != batch[i].Run || !a.New {
			t.Errorf("answer %d: got %+v", i, a)
		}
	}
	w := store.Wait{Routes: []store.Route{route}}
	for p := range 3 {
		id := ids.Session()
		if err := s.OpenSession(t.Context(), store.Session{Partition: p, ID: id, TTL: time.Hour}); err != nil {
			t.Fatal(err)
		}
		w.Sessions = append(w.Sessions, store.WaitSession{Partition: p, Session: id})
	}
	woken, err := s.Wait(t.Context(), w)
	if diff := cmp.Diff([]int{0, 1, 2}, woken.Claim); err != nil || diff != "" {
		t.Errorf("woken: %v (-want +got)\n%s", err, diff)
	}
	for p, o := range w.Sessions {
		got, err := s.Claim(t.Context(), store.Claim{Partition: p, Session: o.Session, Routes: w.Routes, Max: 100})
		if err != nil {
			t.Fatal(err)
		}
		var runs []event.RunID
		for _, r := range got.Runs {
			runs = append(runs, r.Run)
		}
		if diff := cmp.Diff(want[p], runs); diff != "" {
			t.Errorf("claimed in partition %d (-want +got)\n%s", p, diff)
		}
	}
}

func TestInspect_ReturnsACopy(t *testing.T) {
	f := open(t, memstore.Config{Clock: storetest.NewClock()})
	l := f.start(0)
	_, err := f.Deliver(t.Context(), store.Deliver{Run: l.Run, Item: store.Item{ID: "i", Body: []byte(`1`)}})
	f.check(err)
	first, err := f.Inspect(t.Context())
	f.check(err)
	clear(first.Runs[l.Run].Frames[0])
	clear(first.Runs[l.Run].Inbox[0].Body)
	clear(first.Ready[route])
	second, err := f.Inspect(t.Context())
	f.check(err)
	if _, err := event.DecodeFrame(second.Runs[l.Run].Frames[0]); err != nil {
		t.Errorf("frame after the first snapshot was written to: %v", err)
	}
	if got := string(second.Runs[l.Run].Inbox[0].Body); got != "1" {
		t.Errorf("item after the first snapshot was written to: got %q", got)
	}
	if diff := cmp.Diff([]event.RunID{l.Run}, second.Ready[route]); diff != "" {
		t.Errorf("ready (-want +got)\n%s", diff)
	}
}

func TestDeliver_ForgetsOldItemsOfALongRun(t *testing.T) {
	clock := storetest.NewClock()
	f := open(t, memstore.Config{Clock: clock})
	l := f.start(0)
	fence := f.claim()
	deliver := func() store.Item {
		i := store.Item{ID: f.ids.Item(), Body: []byte(`1`)}
		_, err := f.Deliver(t.Context(), store.Deliver{Run: l.Run, Item: i})
		f.check(err)
		return i
	}
	var old []store.Item
	for range 50 {
		old = append(old, deliver())
	}
	c := l.Commit(fence, l.Receive(old[:40]...)...)
	c.Consume, c.ConsumeLast = 40, old[39].ID
	_, err := f.Commit(t.Context(), []store.Commit{c})
	f.check(err)
	clock.Advance(25 * time.Hour)
	deliver()
	snap, err := f.Inspect(t.Context())
	f.check(err)
	seen := snap.Seen[l.Run]
	if len(seen) != 11 {
		t.Errorf("remembered items: got %d, want the 10 unread ones and the new one", len(seen))
	}
	for _, i := range old[40:] {
		if _, ok := seen[i.ID]; !ok {
			t.Errorf("item %s is unread and forgotten", i.ID)
		}
	}
}

func TestList_SortsRunsCreatedAtOneTimeByTheirIDs(t *testing.T) {
	f := open(t, memstore.Config{Clock: storetest.NewClock()}) // all runs are created at the same time, so their IDs determine the order
	begin := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var want []event.RunID
	for n := range 300 {
		id := f.ids.Run(begin.Add(time.Duration(n*7919%300)*time.Second), 0)
		want = append(want, id)
		_, err := f.Create(t.Context(), []store.Create{{Run: id, Route: route, Frame: []byte("frame")}})
		f.check(err)
	}
	page, err := f.List(t.Context(), store.Query{Limit: 1000})
	f.check(err)
	var got []event.RunID
	for _, r := range page.Runs {
		got = append(got, r.Run)
	}
	slices.Sort(want)
	slices.Reverse(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runs (-want +got)\n%s", diff)
	}
	if _, err := f.List(t.Context(), store.Query{Cursor: "page two"}); err == nil {
		t.Error("list from a cursor of another kind: got no error")
	}
}

func TestDue_KeepsTheOrderWhileTimersComeAndGo(t *testing.T) {
	clock := storetest.NewClock()
	f := open(t, memstore.Config{Clock: clock})
	var left []*storetest.Log
	dues := map[event.RunID]time.Duration{}
	for n := range 500 {
		d := time.Duration(1+n*7919%500) * time.Second
		l := f.start(d)
		dues[l.Run] = d
		left = append(left, l)
	}
	for n := range 300 { // a message removes its run from the timers, wherever the run is in the heap
		i := n * 31 % len(left)
		_, err := f.Deliver(t.Context(), store.Deliver{Run: left[i].Run, Item: store.Item{ID: "i"}})
		f.check(err)
		left = slices.Delete(left, i, i+1)
	}
	slices.SortFunc(left, func(a, b *storetest.Log) int { return int(dues[a.Run] - dues[b.Run]) })
	begin := clock.Now()
	for n, l := range left {
		next, err := f.Due(t.Context(), 0, 0)
		f.check(err)
		if got := next.Sub(begin); got != dues[l.Run] {
			t.Fatalf("due time %d: got %v, want %v", n, got, dues[l.Run])
		}
		clock.Advance(next.Sub(clock.Now()))
		_, err = f.Due(t.Context(), 0, 1)
		f.check(err)
	}
}

func TestRecover_OfManyRunsDoesNotHoldUpOthers(t *testing.T) {
	clock := storetest.NewClock()
	f := open(t, memstore.Config{Clock: clock})
	dead := f.ids.Session()
	f.check(f.OpenSession(t.Context(), store.Session{ID: dead, TTL: time.Second}))
	const many = 2500
	for range many {
		f.start(0)
	}
	_, err := f.Claim(t.Context(), store.Claim{Session: dead, Token: f.ids.Token(), Routes: []store.Route{route}, Max: many})
	f.check(err)
	clock.Advance(time.Minute)
	_, err = f.Heartbeat(t.Context(), 0, f.session)
	f.check(err)
	var left []int
	for range 3 {
		_, err := f.Claim(t.Context(), store.Claim{Session: f.session, Token: f.ids.Token()})
		f.check(err)
		snap, err := f.Inspect(t.Context())
		f.check(err)
		left = append(left, len(snap.Owned[dead]))
		if _, err := f.Heartbeat(t.Context(), 0, dead); !errors.Is(err, store.ErrExpired) {
			t.Errorf("heartbeat of a session that is being recovered: %v", err)
		}
	}
	if diff := cmp.Diff([]int{1500, 500, 0}, left); diff != "" {
		t.Errorf("runs left after each claim (-want +got)\n%s", diff)
	}
}

func TestStore_IsLeanForParkedRuns(t *testing.T) {
	const runs, limit = 20_000, 700 // limit is in bytes per run, with its ID and a first frame of about 150 bytes
	f := open(t, memstore.Config{Clock: storetest.NewClock()})
	before := heap()
	for range runs {
		f.start(time.Hour)
	}
	if perRun := (heap() - before) / runs; perRun > limit {
		t.Errorf("memory of a parked run: got %d bytes, want at most %d", perRun, limit)
	} else {
		t.Logf("%d bytes per parked run", perRun)
	}
	runtime.KeepAlive(f)
}

func TestPurge_GivesTheMemoryBack(t *testing.T) {
	const runs, limit = 20_000, 200_000 // limit is in bytes for all runs
	clock := storetest.NewClock()
	f := open(t, memstore.Config{Clock: clock})
	before := heap()
	for n := range runs {
		l := storetest.NewLog(&f.ids, clock, f.ids.Run(clock.Now(), 0), event.Spec{
			Workflow: route.Workflow, Queue: route.Queue, WorkflowID: "order-" + strconv.Itoa(n), Tags: map[string]string{"n": strconv.Itoa(n)},
		})
		_, err := f.Create(t.Context(), []store.Create{l.Create()})
		f.check(err)
		i := store.Item{ID: f.ids.Item(), Body: []byte(`1`)}
		_, err = f.Deliver(t.Context(), store.Deliver{Run: l.Run, Item: i})
		f.check(err)
		c := l.Commit(f.claim(), append(l.Receive(i), l.End(event.StatusCompleted)...)...)
		c.Consume, c.ConsumeLast, c.Effect, c.Status = 1, i.ID, store.EffectFinish, event.StatusCompleted
		answers, err := f.Commit(t.Context(), []store.Commit{c})
		f.check(err)
		f.check(answers[0].Err)
	}
	full := heap() - before
	clock.Advance(store.DefaultRetention)
	for purged := 0; purged < runs; {
		n, _, err := f.Purge(t.Context(), 0, 500)
		f.check(err)
		if n == 0 {
			t.Fatalf("purge stopped after %d runs", purged)
		}
		purged += n
	}
	if left := int64(heap()) - int64(before); left > limit {
		t.Errorf("memory after the purge: got %d bytes, want at most %d of %d", left, limit, full)
	} else {
		t.Logf("%d bytes are left of %d", left, full)
	}
	runtime.KeepAlive(f)
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
