package sqlitestore_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/sqlitestore"
)

// openTwo opens two stores on one file. They share only the file, like two processes.
func openTwo(t *testing.T, clock store.Clock) (here, there *sqlitestore.Store) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "runs.db")
	return openStore(t, path, clock), openStore(t, path, clock)
}

// alarmClock reports when a timer is created.
type alarmClock struct {
	*storetest.Clock

	set chan struct{}
}

func newAlarmClock() alarmClock {
	return alarmClock{Clock: storetest.NewClock(), set: make(chan struct{}, 1)}
}

func (c alarmClock) AfterFunc(d time.Duration, f func()) func() bool {
	stop := c.Clock.AfterFunc(d, f)
	c.set <- struct{}{}
	return stop
}

// waiting starts a Wait and returns once it blocks.
func waiting(t *testing.T, s store.Store, clock alarmClock, w store.Wait) <-chan store.Woken {
	t.Helper()
	w.Until = clock.Now().Add(time.Hour)
	woken := make(chan store.Woken, 1)
	ctx := testContext(t)
	go func() {
		got, err := s.Wait(ctx, w)
		if err != nil {
			t.Errorf("wait: %v", err)
		}
		woken <- got
	}()
	select {
	case <-clock.set:
	case got := <-woken:
		t.Fatalf("wait returned before anything happened: %+v", got)
	}
	return woken
}

func receive(t *testing.T, woken <-chan store.Woken) store.Woken {
	t.Helper()
	select {
	case got := <-woken:
		return got
	case <-testContext(t).Done():
		t.Fatal("wait was not told")
		return store.Woken{}
	}
}

func TestWait_IsToldOfRunsMadeReadyThroughAnotherStore(t *testing.T) {
	clock := newAlarmClock()
	here, there := openTwo(t, clock)
	openSession(t, here, "a")
	woken := waiting(t, here, clock, store.Wait{Sessions: []store.WaitSession{{Session: "a"}}, Routes: routes})
	start(t, there, 1)
	if diff := cmp.Diff(store.Woken{Claim: []int{0}}, receive(t, woken)); diff != "" {
		t.Errorf("woken (-want +got)\n%s", diff)
	}
	if snap := verify(t, here); len(snap.Wakes) != 0 {
		t.Errorf("wakes: got %v, want that the Wait has taken the only one", snap.Wakes)
	}
}

func TestWait_OneWakeGoesToOneOfTwoStores(t *testing.T) {
	clock := newAlarmClock()
	here, there := openTwo(t, clock)
	w := store.Wait{Sessions: []store.WaitSession{{Session: "a"}}, Routes: routes}
	a, b := waiting(t, here, clock, w), waiting(t, there, clock, w)
	start(t, here, 1)
	var first store.Woken
	var other <-chan store.Woken
	select {
	case first = <-a:
		other = b
	case first = <-b:
		other = a
	}
	if diff := cmp.Diff(store.Woken{Claim: []int{0}}, first); diff != "" {
		t.Errorf("first to be woken (-want +got)\n%s", diff)
	}
	clock.Advance(time.Hour)
	if diff := cmp.Diff(store.Woken{Due: true}, receive(t, other)); diff != "" {
		t.Errorf("the other (-want +got)\n%s", diff)
	}
}

func TestWait_IsToldOfAnEarlierDueTimeSetThroughAnotherStore(t *testing.T) {
	clock := newAlarmClock()
	here, there := openTwo(t, clock)
	woken := waiting(t, here, clock, store.Wait{Sessions: []store.WaitSession{{Session: "a"}}})
	c := newLog(clock).Create()
	c.Delay = time.Minute
	_, err := there.Create(testContext(t), []store.Create{c})
	check(t, err)
	if diff := cmp.Diff(store.Woken{Sooner: []int{0}}, receive(t, woken)); diff != "" {
		t.Errorf("woken (-want +got)\n%s", diff)
	}
}

func TestWait_TellsAnItemOnceWhoeverBringsIt(t *testing.T) {
	clock := newAlarmClock()
	here, there := openTwo(t, clock)
	openSession(t, here, "a")
	runs := []event.RunID{start(t, here, 1)[0].Run, start(t, here, 1)[0].Run}
	deliver(t, there, runs[0], "before the claim")
	if got := claim(t, here, "a", 2); !got[0].Unread || got[1].Unread {
		t.Fatalf("claimed: got %+v, want unread items for the first", got)
	}
	for i, from := range []store.Store{there, here} {
		woken := waiting(t, here, clock, store.Wait{Sessions: []store.WaitSession{{Session: "a"}}})
		deliver(t, from, runs[i], "item")
		if diff := cmp.Diff(store.Woken{Unread: runs[i : i+1]}, receive(t, woken)); diff != "" {
			t.Errorf("woken (-want +got)\n%s", diff)
		}
	}
}

func deliver(t *testing.T, s store.Store, run event.RunID, id event.ItemID) {
	t.Helper()
	_, err := s.Deliver(testContext(t), store.Deliver{Run: run, Item: store.Item{ID: id, Body: []byte(`1`)}})
	check(t, err)
}

func TestWatch_SeesCommitsThroughAnotherStore(t *testing.T) {
	clock := storetest.NewClock()
	here, there := openTwo(t, clock)
	l := start(t, there, 1)[0]
	openSession(t, there, "a")
	fence := claim(t, there, "a", 1)[0].Fence
	for n := range uint64(5) {
		grown := make(chan error, 1)
		go func() { grown <- here.Watch(testContext(t), l.Run, n+1) }()
		commit(t, there, l, fence)
		check(t, <-grown)
	}
}

func commit(t *testing.T, s store.Store, l *storetest.Log, fence store.Fence) {
	t.Helper()
	c := l.Commit(fence, l.Work()...)
	got, err := s.Commit(testContext(t), []store.Commit{c})
	check(t, err)
	check(t, got[0].Err)
	l.Accept(c)
}

func TestClaim_RecoversAtOnceWhatAClosedStoreOwned(t *testing.T) {
	here, there := openTwo(t, storetest.NewClock())
	start(t, here, 1)
	openSession(t, there, "gone")
	openSession(t, here, "successor")
	claim(t, there, "gone", 1)
	if got := claim(t, here, "successor", 1); len(got) != 0 {
		t.Fatal("claimed a run of a session that is open in the same process")
	}
	check(t, there.Close())
	if got := claim(t, here, "successor", 1); len(got) != 1 {
		t.Fatal("claimed nothing, want the run of the closed store")
	}
}

func TestHeartbeat_MovesTheSessionToTheStoreItComesThrough(t *testing.T) {
	here, there := openTwo(t, storetest.NewClock())
	start(t, here, 1)
	openSession(t, there, "moved")
	openSession(t, here, "successor")
	claim(t, there, "moved", 1)
	_, err := here.Heartbeat(testContext(t), 0, "moved")
	check(t, err)
	check(t, there.Close())
	if got := claim(t, here, "successor", 1); len(got) != 0 {
		t.Fatal("claimed a run of a session that was heard of through an open store")
	}
}

func TestWait_IsNotLeftWithAWakeWhenItIsCanceled(t *testing.T) {
	here, _ := openTwo(t, storetest.NewClock())
	openSession(t, here, "a")
	for range 200 {
		ctx, cancel := context.WithCancel(testContext(t))
		type answer struct {
			woken store.Woken
			err   error
		}
		answers := make(chan answer, 1)
		go func() {
			w, err := here.Wait(ctx, store.Wait{Sessions: []store.WaitSession{{Session: "a"}}, Routes: routes})
			answers <- answer{w, err}
		}()
		go cancel()
		run := start(t, here, 1)[0]
		got := <-answers
		cancel()
		snap := verify(t, here)
		switch {
		case got.err == nil && len(got.woken.Claim) == 1 && !snap.Wakes[orders]:
		case errors.Is(got.err, context.Canceled) && snap.Wakes[orders]:
		default:
			t.Fatalf("wake of run %s: waiter got %+v, store kept it: %v; want exactly one of them", run.Run, got, snap.Wakes[orders])
		}
		openSession(t, here, "b")
		if got := claim(t, here, "b", 10); len(got) != 1 {
			t.Fatalf("claimed %d runs, want 1", len(got))
		}
	}
}

// end claims a run and ends it.
func end(t *testing.T, s store.Store, session store.SessionID, l *storetest.Log) {
	t.Helper()
	c := l.Commit(claim(t, s, session, 1)[0].Fence, l.End(event.StatusCompleted)...)
	c.Effect, c.Status = store.EffectFinish, event.StatusCompleted
	got, err := s.Commit(testContext(t), []store.Commit{c})
	check(t, err)
	check(t, got[0].Err)
}

func TestWatch_SeesADeleteAndAPurgeThroughAnotherStore(t *testing.T) {
	clock := storetest.NewClock()
	here, there := openTwo(t, clock)
	openSession(t, there, "a")
	for _, forget := range []func(run event.RunID){
		func(run event.RunID) { check(t, there.Delete(testContext(t), run)) },
		func(event.RunID) {
			clock.Advance(store.DefaultRetention)
			n, _, err := there.Purge(testContext(t), 0, 10)
			check(t, err)
			if n != 2 { // the deleted run is purged as well
				t.Errorf("purged %d runs, want 2", n)
			}
		},
	} {
		l := start(t, there, 1)[0]
		end(t, there, "a", l)
		gone := make(chan error, 1)
		go func() { gone <- here.Watch(testContext(t), l.Run, 99) }()
		forget(l.Run)
		if err := <-gone; !errors.Is(err, store.ErrRunNotFound) {
			t.Errorf("watch: got %v, want store.ErrRunNotFound", err)
		}
	}
}

func TestCreate_InARouteThatAnotherStoreHasForgotten(t *testing.T) {
	clock := storetest.NewClock()
	here, there := openTwo(t, clock)
	openSession(t, there, "a")
	l := start(t, here, 1)[0] // here caches the number of the route
	end(t, there, "a", l)
	clock.Advance(store.DefaultRetention)
	n, _, err := there.Purge(testContext(t), 0, 10)
	check(t, err)
	if n != 1 {
		t.Fatalf("purged %d runs, want 1", n)
	}
	other := storetest.NewLog(&storetest.IDs{}, clock, event.NewRunID(clock.Now(), 0), event.Spec{Workflow: refunds.Workflow, Queue: refunds.Queue})
	_, err = there.Create(testContext(t), []store.Create{other.Create()}) // the new route may get the number of the removed one
	check(t, err)
	l = start(t, here, 1)[0]
	want := map[store.Route][]event.RunID{orders: {l.Run}, refunds: {other.Run}}
	if diff := cmp.Diff(want, verify(t, here).Ready); diff != "" {
		t.Errorf("ready (-want +got)\n%s", diff)
	}
}
