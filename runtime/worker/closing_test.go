package worker_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// pushing is a store that delivers a message before every commit that would end a run. It stops
// when a delivery is refused.
type pushing struct {
	store.Store
	mu       sync.Mutex
	body     []byte
	accepted []event.ItemID
	refused  error
}

func (s *pushing) Unwrap() store.Store { return s.Store }

func (s *pushing) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	for _, c := range commits {
		if c.Effect != store.EffectFinish {
			continue
		}
		s.mu.Lock()
		id := event.ItemID(fmt.Sprintf("push-%03d", len(s.accepted)))
		_, err := s.Store.Deliver(ctx, store.Deliver{Run: c.Run, Item: store.Item{ID: id, Body: s.body}})
		if err == nil {
			s.accepted = append(s.accepted, id)
		} else {
			s.refused = err
		}
		s.mu.Unlock()
	}
	return s.Store.Commit(ctx, commits)
}

func TestFLOW5_RunEndsUnderALoadOfMessagesAndLosesNone(t *testing.T) {
	body, err := event.AppendItem(nil, &event.Event{Type: event.MessageReceived, Name: "t", Payload: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	st := &pushing{Store: memstore.New(), body: body}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	wk := worker.New(w.Client, worker.Config{})
	flow := shim.NewWorkflow[workflow.None, workflow.None]("closing.flow", "", shim.WorkflowPolicy{})
	shim.BindWorkflow(wk, flow, func(workflow.Context, workflow.None) (workflow.None, error) { return workflow.None{}, nil })
	ctx, stop := context.WithCancel(w.Ctx)
	worked := make(chan error, 1)
	go func() { worked <- wk.Run(ctx) }()
	run, err := flow.Start(w.Ctx, w.Client, workflow.None{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(w.Ctx); err != nil {
		t.Fatalf("the run did not end: %v", err)
	}
	var unread []event.ItemID
	for e, err := range run.Events(w.Ctx) {
		if err != nil {
			t.Fatal(err)
		}
		unread = e.Unread
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if !slices.Equal(unread, st.accepted) {
		t.Errorf("accepted %v, but the last event lists %v", st.accepted, unread)
	}
	if st.refused == nil || len(st.accepted) < 3 {
		t.Errorf("%d messages were accepted and then %v: the test proves nothing", len(st.accepted), st.refused)
	}
	stop()
	if err := <-worked; err != nil {
		t.Error(err)
	}
}
