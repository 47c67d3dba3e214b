package memstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

func TestSettled_CountsOnlyWaitsThatHaveNothingToReturn(t *testing.T) {
	s := memstore.New()
	route := store.Route{Queue: "q", Workflow: "w"}
	if err := s.OpenSession(t.Context(), store.Session{ID: "s", TTL: time.Hour, Routes: []store.Route{route}}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan store.Woken, 1)
	go func() {
		woken, _ := s.Wait(context.WithoutCancel(t.Context()), store.Wait{Sessions: []store.WaitSession{{Session: "s"}}, Routes: []store.Route{route}})
		ended <- woken
	}()
	for s.Settled() != 1 { // yield until the call waits
		if t.Context().Err() != nil {
			t.Fatal("the wait does not settle")
		}
	}
	frame, err := event.AppendFrame(nil, &event.Frame{Events: []event.Event{{Seq: 1, Type: event.RunCreated, Spec: &event.Spec{Workflow: "w"}}}})
	if err != nil {
		t.Fatal(err)
	}
	run := event.NewRunID(time.Now(), 0)
	if _, err := s.Create(t.Context(), []store.Create{{Run: run, Route: route, Frame: frame, CommitID: event.NewCommitID(), Seq: 1}}); err != nil {
		t.Fatal(err)
	}
	if n := s.Settled(); n != 0 {
		t.Errorf("%d waits are settled although there is a run to claim", n)
	}
	if woken := <-ended; len(woken.Claim) != 1 {
		t.Errorf("woken %+v, want to claim", woken)
	}
}
