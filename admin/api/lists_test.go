package api

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// counting is a service that counts the reads of lists and can make them fail.
type counting struct {
	*admin.Service
	asked atomic.Int64
	fails atomic.Bool
}

func (c *counting) runs(ctx context.Context, p admin.Principal, f admin.Filter) (admin.RunPage, error) {
	c.asked.Add(1)
	if c.fails.Load() {
		return admin.RunPage{}, errors.New("the store is away")
	}
	return c.As(p).Runs(ctx, f)
}

// watching is a memory store with watched lists, and the goroutines that watch them.
type watching struct {
	*testing.T
	counting
	lists *lists
	all   sync.WaitGroup
}

// inBubble runs a test in a bubble of package synctest, which has a fake clock.
func inBubble(t *testing.T, do func(w *watching)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		st := memstore.New()
		client := workflow.NewClient(st, workflow.ClientConfig{})
		w := &watching{T: t, counting: counting{Service: admin.New(client)}}
		w.lists = newLists(w.runs)
		do(w)
		if err := errors.Join(client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
}

func (w *watching) start() {
	w.Helper()
	if _, err := w.Service.Start(w.Context(), admin.Start{Workflow: "orders.fulfil"}); err != nil {
		w.Fatal(err)
	}
}

var viewer = admin.Principal{Name: "eve", Role: admin.RoleViewer}

// look watches a list until ctx is done, and counts the states that it receives.
func (w *watching) look(ctx context.Context, p admin.Principal, f admin.Filter) *atomic.Int64 {
	var seen atomic.Int64
	w.all.Go(func() {
		for range w.lists.watch(ctx, p, f) {
			seen.Add(1)
		}
	})
	return &seen
}

// TestOPS3_ManyWhoLookAtAListAskForItOnceASecond proves that 500 tabs that show the same list cause
// one read per second in total, and no read after they are closed.
func TestOPS3_ManyWhoLookAtAListAskForItOnceASecond(t *testing.T) {
	inBubble(t, func(w *watching) {
		ctx, leave := context.WithCancel(w.Context())
		var tabs []*atomic.Int64
		for range 500 {
			tabs = append(tabs, w.look(ctx, viewer, admin.Filter{Workflow: "orders.fulfil"}))
		}
		for second := range 10 {
			synctest.Wait()
			if got := w.asked.Load(); got != int64(second+1) {
				w.Fatalf("in second %d it was asked for %d times", second, got)
			}
			for _, seen := range tabs {
				if got := seen.Load(); got != int64(second+1) {
					w.Fatalf("in second %d a tab has got %d pages", second, got)
				}
			}
			w.start()
			time.Sleep(listEvery) // sleeps in the fake time of the bubble
		}
		synctest.Wait()
		time.Sleep(10 * listEvery)
		synctest.Wait()
		if got := tabs[0].Load(); got != 11 {
			w.Errorf("nothing has changed, and a tab has got %d pages, want 11", got)
		}
		leave()
		w.all.Wait()
		before := w.asked.Load()
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.asked.Load(); got != before {
			w.Errorf("nobody looks, and it was asked for %d times more", got-before)
		}
	})
}

// TestOPS3_WhoComesAndGoesDoesNotAskMoreOften proves that tabs that are opened and closed
// continuously neither cause more reads nor leave lists without watchers in memory.
func TestOPS3_WhoComesAndGoesDoesNotAskMoreOften(t *testing.T) {
	inBubble(t, func(w *watching) {
		for range 100 {
			ctx, leave := context.WithCancel(w.Context())
			seen := w.look(ctx, viewer, admin.Filter{})
			synctest.Wait()
			time.Sleep(listEvery / 20)
			synctest.Wait()
			if seen.Load() == 0 {
				w.Fatal("a tab has got nothing, though it is known what the list is")
			}
			leave()
			w.all.Wait()
		}
		if got := w.asked.Load(); got > 6 {
			w.Errorf("in five seconds it was asked for %d times", got)
		}
		time.Sleep(listEvery)
		ctx, leave := context.WithCancel(w.Context())
		w.look(ctx, viewer, admin.Filter{Queue: "other"})
		synctest.Wait()
		if got := len(w.lists.all); got != 1 {
			w.Errorf("%d lists are kept, want that which somebody looks at", got)
		}
		leave()
		w.all.Wait()
	})
}

// TestOPS3_AListIsSharedByThoseOnlyThatSeeTheSame proves that principals with different views of a
// list do not share its reads.
func TestOPS3_AListIsSharedByThoseOnlyThatSeeTheSame(t *testing.T) {
	inBubble(t, func(w *watching) {
		ctx, leave := context.WithCancel(w.Context())
		for _, p := range []admin.Principal{
			viewer, {Name: "ada", Role: admin.RoleViewer}, {Name: "eve", Role: admin.RoleViewer, Owner: "eve"}, {Name: "eve", Role: admin.RoleViewer, Owner: "bob"}, {Name: "eve", Role: admin.RoleOperator},
		} {
			w.look(ctx, p, admin.Filter{})
			w.look(ctx, p, admin.Filter{Limit: 7})
		}
		synctest.Wait()
		if got := w.asked.Load(); got != 8 { // ada has the same view as eve
			w.Errorf("%d lists, want 8", got)
		}
		leave()
		w.all.Wait()
	})
}

// TestOPS3_AListThatCannotBeAskedForIsAskedForAgain proves that watchers receive one error per
// outage, and the state of the list after the outage.
func TestOPS3_AListThatCannotBeAskedForIsAskedForAgain(t *testing.T) {
	inBubble(t, func(w *watching) {
		ctx, leave := context.WithCancel(w.Context())
		var got []string
		w.all.Go(func() {
			for now := range w.lists.watch(ctx, viewer, admin.Filter{}) {
				if now.err != nil {
					got = append(got, now.err.Error())
				} else {
					got = append(got, now.sum)
				}
			}
		})
		for _, fails := range []bool{false, true, true, false, false} {
			w.fails.Store(fails)
			synctest.Wait()
			time.Sleep(listEvery)
		}
		synctest.Wait()
		leave()
		w.all.Wait()
		if len(got) != 3 || got[1] != "the store is away" || got[0] != got[2] {
			w.Errorf("got %q", got)
		}
	})
}
