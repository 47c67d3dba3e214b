package worker_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// losing is a store that loses the first commit with outbox records, as a failover may.
type losing struct {
	flowtest.Between

	mu   sync.Mutex
	sent [][]store.Send // outbox records of all commits
}

func (s *losing) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	s.mu.Lock()
	first := false
	for i := range commits {
		if len(commits[i].Send) > 0 && commits[i].Effect != store.EffectFinish {
			first = first || len(s.sent) == 0
			s.sent = append(s.sent, commits[i].Send)
		}
	}
	s.mu.Unlock()
	if !first {
		return s.Between.Commit(ctx, commits)
	}
	lost := make([]store.Committed, len(commits))
	for i := range lost {
		lost[i].Err = &store.ConflictError{Run: commits[i].Run, Reason: "lost"}
	}
	return lost, nil
}

// TestO1_WhatIsAskedForAgainHasTheSameIDs proves that requests which code repeats after the loss of
// a commit have the same IDs as before.
func TestO1_WhatIsAskedForAgainHasTheSameIDs(t *testing.T) {
	st := &losing{Between: flowtest.Between{Store: memstore.New()}}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	parents := flowtest.Flow[workflow.RunID, int]("again")
	w.Work(worker.Config{}, flowtest.Double, flowtest.Collect, flowtest.As(parents, func(ctx workflow.Context, to workflow.RunID) (int, error) {
		sent := workflow.GoErr(ctx, func(ctx workflow.Context) error { return flowtest.Numbers.SendFrom(ctx, to, 1) })
		n, err := flowtest.Doubles.Child(ctx, 4)
		return n, errors.Join(err, func() error { _, err := sent.Get(ctx); return err }())
	}))
	to := flowtest.Start(w, flowtest.Collects, 1)
	if got := flowtest.Result(w, flowtest.Start(w, parents, to.ID())); got != 8 {
		t.Errorf("got %d, want 8", got)
	}
	if diff := cmp.Diff([]int{1}, flowtest.Result(w, to)); diff != "" {
		t.Errorf("what was received (-want +got):\n%s", diff)
	}
	names := func(all []store.Send) (names []string) {
		for _, s := range all {
			names = append(names, fmt.Sprintf("%s to %s", s.ID, s.To))
		}
		return names
	}
	if len(st.sent) != 2 || len(st.sent[0]) != 2 {
		t.Fatalf("%d commits with records, want two with two each: the test proves nothing", len(st.sent))
	}
	if diff := cmp.Diff(names(st.sent[0]), names(st.sent[1])); diff != "" {
		t.Errorf("the records (-first +again):\n%s", diff)
	}
}

// TestO1_ARecordThatDoesNotGetThroughHoldsBackItsPair proves that a record that is not delivered
// delays the later records of its pair.
func TestO1_ARecordThatDoesNotGetThroughHoldsBackItsPair(t *testing.T) {
	for name, failure := range map[string]error{"later": store.ErrLater, "no answer": errNoAnswer} {
		t.Run(name, func(t *testing.T) {
			st := &flowtest.Between{Store: memstore.New()}
			var tries atomic.Int64
			st.Around = func(_ context.Context, op string, _ any, do func() error) error {
				if op == "deliver" && tries.Add(1) == 1 {
					return failure
				}
				return do()
			}
			w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
			senders := flowtest.Flow[workflow.RunID, int]("three")
			w.Work(worker.Config{}, flowtest.Collect, flowtest.As(senders, func(ctx workflow.Context, to workflow.RunID) (int, error) {
				var all []*workflow.Future[workflow.None]
				for n := range 3 {
					all = append(all, workflow.GoErr(ctx, func(ctx workflow.Context) error { return flowtest.Numbers.SendFrom(ctx, to, n) }))
				}
				_, err := workflow.All(ctx, all...)
				return len(all), err
			}))
			to := flowtest.Start(w, flowtest.Collects, 3)
			flowtest.Result(w, flowtest.Start(w, senders, to.ID()))
			if diff := cmp.Diff([]int{0, 1, 2}, flowtest.Result(w, to)); diff != "" {
				t.Errorf("what was received (-want +got):\n%s", diff)
			}
		})
	}
}

// forgetting is a store that loses the first child that is created.
type forgetting struct {
	flowtest.Between

	lost    atomic.Bool
	undated atomic.Bool // whether a mark had no deadline
}

func (s *forgetting) Mark(ctx context.Context, partition int, marks []store.Mark) error {
	for i := range marks {
		if marks[i].Deadline.IsZero() {
			s.undated.Store(true)
		}
	}
	return s.Between.Mark(ctx, partition, marks)
}

func (s *forgetting) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	if len(runs) == 1 && runs[0].CreatedBy != "" && !s.lost.Swap(true) {
		return []store.Created{{Run: runs[0].Run, New: true}}, nil
	}
	return s.Between.Create(ctx, runs)
}

func TestO1_WhatCreatedAnUnknownReceiverIsSentAgain(t *testing.T) {
	st := &forgetting{Between: flowtest.Between{Store: memstore.New()}}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	parents := flowtest.Flow[int, []int]("restarts")
	w.Work(worker.Config{}, flowtest.Collect, flowtest.As(parents, func(ctx workflow.Context, n int) ([]int, error) {
		child := flowtest.Collects.StartChild(ctx, 1)
		if err := child.Started(ctx); err != nil {
			return nil, err
		}
		if err := flowtest.Numbers.SendFrom(ctx, child.ID(), n); err != nil {
			return nil, err
		}
		return child.Get(ctx)
	}))
	if diff := cmp.Diff([]int{7}, flowtest.Result(w, flowtest.Start(w, parents, 7))); diff != "" {
		t.Errorf("what the child has received (-want +got):\n%s", diff)
	}
	if !st.lost.Load() {
		t.Error("no child was lost: the test proves nothing")
	}
	if st.undated.Load() {
		t.Error("a mark has no deadline: a late refusal would count")
	}
}

// carrying is a store that counts the deliveries of each record.
type carrying struct {
	flowtest.Between

	mu        sync.Mutex
	sent      map[event.ItemID]int
	confirmed map[event.ItemID]int
}

func (s *carrying) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	for _, r := range runs {
		s.count(&s.sent, r.CreatedBy)
	}
	return s.Between.Create(ctx, runs)
}

func (s *carrying) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	s.count(&s.sent, d.Item.ID)
	return s.Between.Deliver(ctx, d)
}

func (s *carrying) Confirm(ctx context.Context, run event.RunID, record event.ItemID) error {
	s.count(&s.confirmed, record)
	return s.Store.Confirm(ctx, run, record)
}

func (s *carrying) count(in *map[event.ItemID]int, id event.ItemID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if *in == nil {
		*in = map[event.ItemID]int{}
	}
	if id != "" {
		(*in)[id]++
	}
}

func TestO2_EveryRecordIsSettledConfirmedAndGone(t *testing.T) {
	clock := storetest.NewClock()
	mem := memstore.NewWith(memstore.Config{Clock: clock})
	st := &carrying{Between: flowtest.Between{Store: mem}}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Clock = clock
	parents := flowtest.Flow[int, int]("settled")
	w.Work(worker.Config{Heartbeat: time.Minute, ClaimExpiry: 10_000 * time.Hour}, flowtest.Double,
		flowtest.As(parents, func(ctx workflow.Context, n int) (int, error) { return flowtest.Doubles.Child(ctx, n) }))
	if got := flowtest.Result(w, flowtest.Start(w, parents, 4)); got != 8 {
		t.Errorf("got %d, want 8", got)
	}
	w.Eventually("the outbox is empty", func() bool {
		w.Clock.Advance(10 * time.Second)
		snap, err := mem.Inspect(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		return len(snap.Outbox) == 0
	})
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.sent) != 2 {
		t.Errorf("records: got %v, want a start and an end", st.sent)
	}
	for id, n := range st.sent {
		if n < 2 || st.confirmed[id] == 0 {
			t.Errorf("record %s was sent %d times and confirmed %d times, want it sent once more to settle, and confirmed", id, n, st.confirmed[id])
		}
	}
}

// TestEngine_TheEndOfAChildIsConsumedOnce proves that the end of a child changes nothing if the log
// does not expect it. Such an end was consumed before.
func TestEngine_TheEndOfAChildIsConsumedOnce(t *testing.T) {
	w := flowtest.NewMemory(t)
	w.Work(worker.Config{}, flowtest.Collect)
	run := flowtest.Start(w, flowtest.Collects, 1)
	stray := event.Event{Type: event.ChildCompleted, Key: "collects/doubles#1", Next: event.DerivedRunID(run.ID(), "collects/doubles#1", 0), Payload: []byte("1")}
	body, err := event.AppendItem(nil, &stray)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Store.Deliver(w.Ctx, store.Deliver{Run: run.ID(), Item: store.Item{ID: "stray", Scope: store.ScopeRun, Body: body}}); err != nil {
		t.Fatal(err)
	}
	if err := flowtest.Numbers.Send(w.Ctx, run, 3); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{3}, flowtest.Result(w, run)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := flowtest.Filter(w.Log(run), event.ChildCompleted); len(got) > 0 {
		t.Errorf("the log holds %v", got)
	}
}

// TestFLOW10_WhatComesBesideAnItemForTheOldRunAloneIsCarriedOver proves that a run which continues
// as new reads the items that are only for this run. A message that precedes such an item in the
// inbox is applied as well, and must be carried over to the log of the next run.
func TestFLOW10_WhatComesBesideAnItemForTheOldRunAloneIsCarriedOver(t *testing.T) {
	mem := memstore.New()
	st := &flowtest.Between{Store: mem}
	var once atomic.Bool
	deliver := func(ctx context.Context, run event.RunID, item store.Item, e event.Event) error {
		var err error
		if item.Body, err = event.AppendItem(nil, &e); err == nil {
			_, err = mem.Deliver(ctx, store.Deliver{Run: run, Item: item})
		}
		return err
	}
	st.Around = func(ctx context.Context, op string, req any, do func() error) error {
		commits, _ := req.([]store.Commit)
		if op != "commit" || commits[0].Effect != store.EffectContinue || once.Swap(true) {
			return do()
		}
		run := commits[0].Run
		return errors.Join(
			deliver(ctx, run, store.Item{ID: "message"}, event.Event{Type: event.MessageReceived, Name: "numbers", Payload: []byte("7")}),
			deliver(ctx, run, store.Item{ID: "stray", Scope: store.ScopeRun}, event.Event{Type: event.ChildCompleted, Key: "nobody/waits#1"}),
			do())
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	turns, next := flowtest.Flow[int, int]("turns"), flowtest.Flow[int, int]("turns")
	w.Work(worker.Config{}, flowtest.As(turns, func(ctx workflow.Context, n int) (int, error) {
		if n == 0 {
			return 0, next.ContinueAsNew(ctx, 1)
		}
		return flowtest.Numbers.Receive(ctx)
	}))
	if got := flowtest.Result(w, flowtest.Start(w, turns, 0)); got != 7 {
		t.Errorf("got %d, want 7", got)
	}
	w.Healthy()
}
