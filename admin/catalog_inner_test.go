package admin

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// slowCatalog is a store whose catalog queries block until the test answers them.
type slowCatalog struct {
	store.Store
	asked  chan struct{} // receives a value for each query
	answer chan error    // answers a query; nil means success
	n      atomic.Int64  // number of queries
}

// WriteEntry passes the write to the inner store.
func (s *slowCatalog) WriteEntry(ctx context.Context, w store.EntryWrite) error {
	e, _ := store.As[store.Entries](s.Store)
	return e.WriteEntry(ctx, w)
}

// Entries blocks until the test answers the query.
func (s *slowCatalog) Entries(ctx context.Context, q store.EntryQuery) ([]store.Entry, error) {
	s.n.Add(1)
	s.asked <- struct{}{}
	select {
	case err := <-s.answer:
		if err != nil {
			return nil, err
		}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	e, _ := store.As[store.Entries](s.Store)
	return e.Entries(ctx, q)
}

type limitsAnswer struct {
	by  map[string][]string
	err error
}

// limitsIn requests the limits of the workflow with the given name in the background.
func limitsIn(ctx context.Context, d *Service, name string) <-chan limitsAnswer {
	got := make(chan limitsAnswer, 1)
	go func() {
		by, err := d.limitsOf(ctx, []Queue{{Workflow: name}})
		got <- limitsAnswer{by, err}
	}()
	return got
}

// soon receives a value from c. It fails the test if no value arrives in time.
func soon[T any](t *testing.T, what string, c <-chan T) T {
	t.Helper()
	select {
	case got := <-c:
		return got
	case <-time.After(20 * time.Second):
		t.Fatalf("%s: nothing comes", what)
		panic("unreachable")
	}
}

func slowDirect(t *testing.T) (*Service, *slowCatalog) {
	t.Helper()
	inner := memstore.New()
	st := &slowCatalog{Store: inner, asked: make(chan struct{}, 1000), answer: make(chan error)}
	if err := store.Describe(t.Context(), inner, "shop.order", store.CatalogVersion{Build: "b", Queue: "default", Limits: []string{"carrier"}}); err != nil {
		t.Fatal(err)
	}
	client := workflow.NewClient(st, workflow.ClientConfig{})
	t.Cleanup(func() {
		if err := errors.Join(client.Close(), st.Close()); err != nil {
			t.Error(err)
		}
	})
	return New(client), st
}

func wantCarrier(t *testing.T, what string, got limitsAnswer) {
	t.Helper()
	if limits := got.by["shop.order"]; got.err != nil || len(limits) != 1 || limits[0] != "carrier" {
		t.Errorf("%s: got %v, %v, want the limit carrier", what, got.by, got.err)
	}
}

// TestOPS1_OneRequestReadsTheLimitsForAllThatWait proves that one of several concurrent requests
// reads the limits for all of them, and that each request waits no longer than its own deadline.
func TestOPS1_OneRequestReadsTheLimitsForAllThatWait(t *testing.T) {
	d, st := slowDirect(t)
	first := limitsIn(t.Context(), d, "shop.order")
	soon(t, "the first question", st.asked)
	hurried, cancel := context.WithCancel(t.Context())
	other := limitsIn(hurried, d, "shop.order")
	cancel()
	if got := soon(t, "a request that has no time left", other); !errors.Is(got.err, context.Canceled) {
		t.Errorf("a request that has no time left got %+v", got)
	}
	var waiting []<-chan limitsAnswer
	for range 20 {
		waiting = append(waiting, limitsIn(t.Context(), d, "shop.order"))
	}
	st.answer <- nil
	wantCarrier(t, "the first", soon(t, "the first", first))
	for _, one := range waiting {
		wantCarrier(t, "one that waited", soon(t, "one that waited", one))
	}
	if n := st.n.Load(); n != 1 {
		t.Errorf("the store was asked %d times, want once", n)
	}
}

// TestOPS1_AnotherRequestReadsTheLimitsWhenTheFirstHasNoTimeLeft proves that another request reads
// the limits if the deadline of the reading request passes, and that all requests fail if the store
// fails.
func TestOPS1_AnotherRequestReadsTheLimitsWhenTheFirstHasNoTimeLeft(t *testing.T) {
	d, st := slowDirect(t)
	hurried, cancel := context.WithCancel(t.Context())
	first := limitsIn(hurried, d, "shop.order")
	soon(t, "the first question", st.asked)
	_, r, mine := d.used.known([]Queue{{Workflow: "shop.order"}})
	if mine {
		t.Fatal("two requests read")
	}
	second := limitsIn(t.Context(), d, "shop.order") // waits for r or begins after the end of r
	cancel()
	if got := soon(t, "the first", first); !errors.Is(got.err, context.Canceled) {
		t.Errorf("the first got %+v", got)
	}
	if soon(t, "the end of the first", r.over); r.err != nil {
		t.Errorf("those that wait for the first get %v, want that one of them reads", r.err)
	}
	soon(t, "the second question", st.asked)
	st.answer <- nil
	wantCarrier(t, "the second", soon(t, "the second", second))

	d.used.read = d.used.read.Add(-time.Hour)
	if _, r, mine = d.used.known([]Queue{{Workflow: "shop.order"}}); !mine {
		t.Fatal("what is an hour old is new enough")
	}
	gone := errors.New("the disk is gone")
	if _, err := d.used.fill(t.Context(), r, func(context.Context) (map[string][]string, error) { return nil, gone }); !errors.Is(err, gone) {
		t.Errorf("the reader got %v", err)
	}
	soon(t, "the end of the reading", r.over)
	d.used.reading = r // the state that a request finds after it has waited for r
	if got := soon(t, "one that waited", limitsIn(t.Context(), d, "shop.order")); !errors.Is(got.err, gone) {
		t.Errorf("one that waited got %+v, want the error of the store", got)
	}
}

// TestOPS1_WhatIsKnownOfLimitsIsToldWhileTheStoreIsSlow proves that a request for cached limits
// does not wait for a read of limits that are not cached.
func TestOPS1_WhatIsKnownOfLimitsIsToldWhileTheStoreIsSlow(t *testing.T) {
	d, st := slowDirect(t)
	first := limitsIn(t.Context(), d, "shop.order")
	soon(t, "the first question", st.asked)
	st.answer <- nil
	wantCarrier(t, "the first", soon(t, "the first", first))
	d.used.read = d.used.read.Add(-2 * usedAtMost) // the cache is recent enough for the workflows in it, but not for others
	ctx, cancel := context.WithCancel(t.Context())
	unknown := limitsIn(ctx, d, "shop.other")
	soon(t, "the question of another workflow", st.asked)
	wantCarrier(t, "meanwhile", soon(t, "meanwhile", limitsIn(t.Context(), d, "shop.order")))
	cancel()
	if got := soon(t, "the other one", unknown); !errors.Is(got.err, context.Canceled) {
		t.Errorf("the other one got %+v", got)
	}
}
