package memstore_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// In the tests below only the test itself acts. synctest.Wait returns when all goroutines are
// blocked, so a test can observe that a call has not returned.

func TestWait_BlocksUntilThereIsSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, memstore.Config{})
		var woken *store.Woken
		go func() {
			got, err := f.wait(t.Context(), time.Time{}, route)
			if err == nil {
				woken = &got
			}
		}()
		synctest.Wait()
		if woken != nil {
			t.Fatalf("got %+v before there was anything", *woken)
		}
		f.start(0)
		synctest.Wait()
		if woken == nil || !slices.Equal(woken.Claim, []int{0}) {
			t.Fatalf("got %+v after a run was made ready", woken)
		}
	})
}

func TestWait_EndsAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, memstore.Config{})
		begin := time.Now()
		got, err := f.wait(t.Context(), begin.Add(time.Minute), route)
		f.check(err)
		if !got.Due || time.Since(begin) != time.Minute {
			t.Errorf("got %+v after %v, want Due after 1m", got, time.Since(begin))
		}
	})
}

func TestWait_WithoutATimeHearsOfEarlierDueTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, memstore.Config{})
		f.start(time.Hour)
		var woken *store.Woken
		go func() {
			if got, err := f.wait(t.Context(), time.Time{}); err == nil {
				woken = &got
			}
		}()
		synctest.Wait()
		f.start(2 * time.Hour)
		synctest.Wait()
		if woken != nil {
			t.Fatalf("got %+v for a later due time", *woken)
		}
		f.start(time.Minute)
		synctest.Wait()
		if woken == nil || len(woken.Sooner) != 1 {
			t.Fatalf("got %+v for an earlier due time", woken)
		}
	})
}

func TestWait_GoesRoundAmongIdleWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, memstore.Config{})
		var mu sync.Mutex
		var order []int
		for worker := range 3 {
			go func() {
				if _, err := f.wait(t.Context(), time.Time{}, route); err == nil {
					mu.Lock()
					defer mu.Unlock()
					order = append(order, worker)
				}
			}()
			synctest.Wait()
		}
		for range 3 {
			f.start(0)
			synctest.Wait()
		}
		if diff := cmp.Diff([]int{0, 1, 2}, order); diff != "" {
			t.Errorf("order of wakes (-want +got)\n%s", diff)
		}
	})
}

func TestWait_IsToldOfAnItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, memstore.Config{})
		l := f.start(0)
		f.claim()
		var woken *store.Woken
		go func() {
			if got, err := f.wait(t.Context(), time.Time{}); err == nil {
				woken = &got
			}
		}()
		synctest.Wait()
		_, err := f.Deliver(t.Context(), store.Deliver{Run: l.Run, Item: store.Item{ID: "i"}})
		f.check(err)
		synctest.Wait()
		if woken == nil || !slices.Equal(woken.Unread, []event.RunID{l.Run}) {
			t.Fatalf("got %+v after an item was delivered", woken)
		}
	})
}

func TestWatch_IsToldOfItsOwnRunOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, memstore.Config{})
		watched, other := f.start(0), f.start(0)
		told := 0
		var mu sync.Mutex
		for range 3 {
			go func() {
				if f.Watch(t.Context(), watched.Run, 1) == nil {
					mu.Lock()
					defer mu.Unlock()
					told++
				}
			}()
		}
		commit := func(l *storetest.Log) int {
			claimed, err := f.ClaimRun(t.Context(), 0, f.session, f.ids.Token(), l.Run)
			f.check(err)
			answers, err := f.Commit(t.Context(), []store.Commit{l.Commit(claimed.Fence, l.Work()...)})
			f.check(err)
			f.check(answers[0].Err)
			synctest.Wait()
			return told
		}
		synctest.Wait()
		if n := commit(other); n != 0 {
			t.Errorf("a commit to another run ended %d watches", n)
		}
		if n := commit(watched); n != 3 {
			t.Errorf("a commit to the run ended %d watches, want 3", n)
		}
	})
}

func TestWait_ThatHasAWakeLeavesTheNextToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, memstore.Config{})
		a, b := store.Route{Queue: "a"}, store.Route{Queue: "b"}
		var mu sync.Mutex
		var woken []string
		idle := func(name string, routes ...store.Route) {
			go func() {
				if _, err := f.wait(t.Context(), time.Time{}, routes...); err == nil {
					mu.Lock()
					defer mu.Unlock()
					woken = append(woken, name)
				}
			}()
			synctest.Wait()
		}
		idle("both", a, b)
		idle("only b", b)
		var batch []store.Create
		for _, c := range []store.Route{a, b} { // change both routes in one action, so that no call can return in between
			batch = append(batch, store.Create{Run: f.ids.Run(time.Now(), 0), Route: c, Frame: []byte("frame")})
		}
		_, err := f.Create(t.Context(), batch)
		f.check(err)
		synctest.Wait()
		slices.Sort(woken)
		if diff := cmp.Diff([]string{"both", "only b"}, woken); diff != "" {
			t.Errorf("woken (-want +got)\n%s", diff)
		}
	})
}

func TestWait_SaysNothingOfItemsOfARunThatHasLeft(t *testing.T) {
	f := open(t, memstore.Config{Clock: storetest.NewClock()})
	l := f.start(0)
	fence := f.claim()
	_, err := f.Deliver(t.Context(), store.Deliver{Run: l.Run, Item: store.Item{ID: "i"}})
	f.check(err)
	f.check(f.Release(t.Context(), l.Run, fence))
	got, err := f.wait(t.Context(), f.Clock().Now())
	f.check(err)
	if diff := cmp.Diff([]event.RunID(nil), got.Unread); diff != "" {
		t.Errorf("unread (-want +got)\n%s", diff)
	}
}

func TestWatch_LeavesNothingBehindWhenItGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, memstore.Config{})
		l := f.start(0)
		ctx, cancel := context.WithCancel(t.Context())
		for range 100 {
			go func() { _ = f.Watch(ctx, l.Run, 1) }()
			go func() { _, _ = f.wait(ctx, time.Now().Add(time.Hour), route) }()
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		if waits, watches := memstore.Blocked(f.Store); waits != 0 || watches != 0 {
			t.Errorf("left behind: %d waits, %d watches", waits, watches)
		}
	})
}

func TestClose_EndsCallsThatAreBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := open(t, memstore.Config{})
		l := f.start(time.Hour)
		f.check(f.OpenSession(t.Context(), store.Session{ID: "idle", TTL: time.Hour}))
		answers := make(chan error, 3)
		go func() { answers <- f.Watch(t.Context(), l.Run, 1) }()
		go func() {
			_, err := f.wait(t.Context(), time.Now().Add(time.Minute))
			answers <- err
		}()
		go func() {
			_, err := f.wait(t.Context(), time.Time{})
			answers <- err
		}()
		synctest.Wait()
		if len(answers) != 0 {
			t.Fatalf("%d calls ended before Close", len(answers))
		}
		f.check(f.Close())
		for range 3 {
			if err := <-answers; !errors.Is(err, store.ErrClosed) {
				t.Errorf("blocked call: got %v, want store.ErrClosed", err)
			}
		}
	})
}
