package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	// tries takes what is there when its code begins, and then waits for so many numbers.
	triesFlow = flow[int, []int]("tries")
	tries     = as(triesFlow, func(ctx workflow.Context, n int) (all []int, err error) {
		for {
			v, ok, err := numbers.TryReceive(ctx)
			if err != nil || !ok {
				break
			}
			all = append(all, v)
		}
		for range n {
			v, err := numbers.Receive(ctx)
			if err != nil {
				return all, err
			}
			all = append(all, v)
		}
		return all, nil
	})
)

var phrases = workflow.NewTopic[string]("start-words")

func numbered(n int, opts ...workflow.SendOption) workflow.StartOption {
	return workflow.WithMessage(numbers, n, opts...)
}

func TestFLOW5_AStartHasItsMessagesBeforeTheCodeBegins(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.near = true // a run that is handed over would begin before it has read anything
		w.work(worker.Config{}, tries)
		for n := range 20 {
			run := start(w, triesFlow, 0, numbered(n), numbered(-n), numbered(100))
			if !run.Created() {
				t.Errorf("run %s was not created", run.ID())
			}
			if diff := cmp.Diff([]int{n, -n, 100}, result(w, run)); diff != "" {
				t.Fatalf("received (-want +got):\n%s", diff)
			}
		}
	})
}

func TestFLOW5_AStartOfAnActiveRunSendsItTheMessage(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		first := start(w, collects, 5, workflow.WithID("collector"), numbered(1), numbered(2, workflow.IdempotencyKey("two")))
		again := start(w, collects, 1, workflow.WithID("collector"), numbered(2, workflow.IdempotencyKey("two")), numbered(3))
		if again.Created() || again.ID() != first.ID() {
			t.Errorf("second start: got run %s, created %v, want run %s", again.ID(), again.Created(), first.ID())
		}
		if err := numbers.Send(w.ctx, first, 2, workflow.IdempotencyKey("two")); err != nil {
			t.Error(err)
		}
		w.work(worker.Config{}, collect)
		start(w, collects, 1, workflow.WithID("collector"), numbered(4), numbered(5, workflow.IdempotencyKey("5")), numbered(5, workflow.IdempotencyKey("5")))
		if diff := cmp.Diff([]int{1, 2, 3, 4, 5}, result(w, first)); diff != "" {
			t.Errorf("received (-want +got):\n%s", diff)
		}
	})
}

func TestFLOW5_AStartThatIsRefusedSendsNoMessage(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		run := start(w, collects, 1, workflow.WithID("collector"))
		inputs := func(what string, err error, want any) {
			t.Helper()
			if err == nil || !errors.As(err, want) {
				t.Errorf("%s: got %v, want a %T", what, err, want)
			}
		}
		fails := workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.FailActive})
		_, err := collects.Start(w.ctx, w.client, 1, workflow.WithID("collector"), fails, numbered(1))
		inputs("start that fails", err, new(*workflow.ActiveRunError))
		_, err = triesFlow.Start(w.ctx, w.client, 1, workflow.WithID("collector"), numbered(1))
		if !errors.Is(err, workflow.ErrWrongWorkflow) {
			t.Errorf("start of another workflow: got %v, want ErrWrongWorkflow", err)
		}
		_, err = collects.Start(w.ctx, w.client, 1, workflow.WithID("collector"), numbered(1), workflow.WithMessage(phrases, strings.Repeat("x", workflow.DefaultMaxPayload)))
		inputs("message that is too large", err, new(*workflow.PayloadError))
		_, err = collects.Start(w.ctx, w.client, 1, workflow.WithID("collector"), numbered(1), workflow.WithMessage(phrases, "\xff"))
		inputs("message that is not UTF-8", err, new(*workflow.PayloadError))
		if err := numbers.Send(w.ctx, run, 7); err != nil {
			t.Fatal(err)
		}
		w.work(worker.Config{}, collect)
		if diff := cmp.Diff([]int{7}, result(w, run)); diff != "" {
			t.Errorf("received (-want +got):\n%s", diff)
		}
		rejects := workflow.WithIDPolicy(workflow.IDPolicy{Finished: workflow.RejectFinished})
		_, err = collects.Start(w.ctx, w.client, 1, workflow.WithID("collector"), rejects, numbered(1))
		inputs("start after the end", err, new(*workflow.FinishedRunError))
		if n := len(filter(w.log(run), event.MessageReceived)); n != 1 {
			t.Errorf("the log has %d messages, want 1", n)
		}
	})
}

func TestFLOW5_ARunForLaterIsNotWokenByTheMessagesOfItsStart(t *testing.T) {
	w := newVirtual(t)
	w.work(worker.Config{}, tries)
	later := start(w, triesFlow, 0, workflow.WithDelay(time.Hour), numbered(1))
	held := start(w, triesFlow, 0, workflow.WithHoldFor(24*time.Hour), numbered(2))
	// Whoever is woken begins before this one, which came last.
	if diff := cmp.Diff([]int{3}, result(w, start(w, triesFlow, 0, numbered(3)))); diff != "" {
		t.Errorf("received (-want +got):\n%s", diff)
	}
	for _, run := range []*workflow.Run[[]int]{later, held} {
		loaded, err := w.store.Load(w.ctx, []store.Load{{Run: run.ID(), Inbox: true}})
		if err != nil || loaded[0].Record.Place != store.PlaceParked || loaded[0].Record.N != 1 || len(loaded[0].Inbox) != 1 {
			t.Errorf("run for later: got %+v, %v, want it parked with one frame and one item", loaded, err)
		}
	}
	w.clock.Advance(time.Hour)
	if diff := cmp.Diff([]int{1}, result(w, later)); diff != "" {
		t.Errorf("received (-want +got):\n%s", diff)
	}
	if err := held.Release(w.ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{2}, result(w, held)); diff != "" {
		t.Errorf("received (-want +got):\n%s", diff)
	}
}

func TestFLOW5_ARunInLineKeepsTheMessagesOfItsStart(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		replaces := workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.CancelActive})
		first := start(w, collects, 2, workflow.WithID("collector"), numbered(1))
		second := start(w, collects, 2, workflow.WithID("collector"), replaces, numbered(2), numbered(3))
		w.work(worker.Config{}, collect)
		if e := failure(w, first); e.Status != workflow.StatusCanceled {
			t.Errorf("first run: got %s, want canceled", e.Status)
		}
		if diff := cmp.Diff([]int{2, 3}, result(w, second)); diff != "" {
			t.Errorf("received (-want +got):\n%s", diff)
		}
	})
}

func TestFLOW5_StartManyGivesEachRunItsMessages(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		w.near = true
		w.work(worker.Config{}, collect)
		start(w, collects, 2, workflow.WithID("there"))
		var requests []workflow.StartRequest[int]
		for n := range 6 {
			requests = append(requests, workflow.StartRequest[int]{Input: 1, Options: []workflow.StartOption{numbered(n)}})
		}
		requests[2].Options = nil
		for _, n := range []int{1, 4} { // the same run, in this order
			requests[n].Options = append(requests[n].Options, workflow.WithID("there"))
		}
		started, err := collects.StartMany(w.ctx, w.client, requests)
		if err != nil {
			t.Fatal(err)
		}
		for n, want := range [][]int{{0}, {1, 4}, {9}, {3}, {1, 4}, {5}} {
			if started[n].Err != nil {
				t.Errorf("start %d: %v", n, started[n].Err)
				continue
			}
			if n == 2 {
				if err := numbers.Send(w.ctx, started[n].Run, 9); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(want, result(w, started[n].Run)); diff != "" {
				t.Errorf("run %d received (-want +got):\n%s", n, diff)
			}
		}
	})
}

// endsBefore returns a client whose deliveries arrive only when the run has ended that they
// are for, as often as ends is true.
func (w *world) endsBefore(ends func(d store.Deliver) bool) *workflow.Client {
	st := &between{Store: w.store, around: func(ctx context.Context, op string, req any, do func() error) error {
		if d, ok := req.(store.Deliver); ok && op == "deliver" && ends(d) {
			_, _ = collects.Get(w.client, d.Run).Result(ctx)
		}
		return do()
	}}
	return workflow.NewClient(st, workflow.ClientConfig{})
}

func TestFLOW5_ARunThatEndsBeforeItHasTheMessageOfAStartIsFollowedByANewOne(t *testing.T) {
	onEveryStore(t, func(t *testing.T, w *world) {
		first := start(w, collects, 1, workflow.WithID("collector"))
		deliveries := 0
		c := w.endsBefore(func(d store.Deliver) bool {
			if deliveries++; deliveries != 2 {
				return false
			}
			w.work(worker.Config{}, collect) // the first message ends the run before the second one comes
			return true
		})
		second, err := collects.Start(w.ctx, c, 2, workflow.WithID("collector"), numbered(1), numbered(2), numbered(3))
		if err != nil {
			t.Fatal(err)
		}
		if !second.Created() || second.ID() == first.ID() {
			t.Errorf("got run %s, created %v, want a new one after %s", second.ID(), second.Created(), first.ID())
		}
		if diff := cmp.Diff([]int{1}, result(w, first)); diff != "" {
			t.Errorf("the first run received (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{2, 3}, result(w, second)); diff != "" {
			t.Errorf("the second run received (-want +got):\n%s", diff)
		}
	})
}

func TestFLOW5_AStartWithAMessageThatFindsNoRunEndsWithItsContext(t *testing.T) {
	w := newMemory(t)
	run := start(w, collects, 1, workflow.WithID("collector"))
	ctx, cancel := context.WithCancel(w.ctx)
	st := &between{Store: w.store, around: func(_ context.Context, op string, _ any, do func() error) error {
		if op != "deliver" {
			return do()
		}
		cancel()
		return &store.TerminalError{Run: run.ID(), Status: event.StatusCompleted} // though it is active
	}}
	_, err := collects.Start(ctx, workflow.NewClient(st, workflow.ClientConfig{}), 1, workflow.WithID("collector"), numbered(1))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// Answers and requests get lost, and runs end at any moment. Whoever is told that a start
// succeeded has a message that one run has accepted, once; the message of any other start
// was accepted once at most.
func TestFLOW5_NoMessageOfAStartIsLostOrAcceptedTwice(t *testing.T) {
	const senders, each = 6, 15
	errLost := errors.New("lost")
	onEveryStore(t, func(t *testing.T, w *world) {
		w.work(worker.Config{}, collect)
		var mu sync.Mutex
		acknowledged := map[event.ItemID]bool{}
		draw := rand.New(rand.NewPCG(rand.Uint64(), 1))
		chance := func(percent int) bool {
			mu.Lock()
			defer mu.Unlock()
			return draw.IntN(100) < percent
		}
		st := &between{Store: w.store, around: func(ctx context.Context, op string, req any, do func() error) error {
			if op != "create" && op != "deliver" {
				return do()
			}
			if d, ok := req.(store.Deliver); ok && chance(30) {
				_, _ = collects.Get(w.client, d.Run).Result(ctx) // each run has a message, and so it ends
			}
			if chance(10) {
				return errLost
			}
			err := do()
			if chance(10) {
				_ = do() // sent again by whatever is between
			}
			if chance(10) {
				return errLost
			}
			return err
		}}
		c := workflow.NewClient(st, workflow.ClientConfig{})
		var all sync.WaitGroup
		for s := range senders {
			all.Go(func() {
				for n := range each {
					key := fmt.Sprint(s*each + n)
					_, err := collects.Start(w.ctx, c, 1, workflow.WithID(fmt.Sprint("collector ", n%2)), numbered(0, workflow.IdempotencyKey(key)))
					if err != nil && !errors.Is(err, errLost) {
						t.Errorf("start %s: %v", key, err)
					}
					mu.Lock()
					acknowledged[event.ItemID(`key:"numbers":`+key)] = err == nil
					mu.Unlock()
				}
			})
		}
		all.Wait()
		w.eventually("all runs have ended", func() bool { return len(w.open()) == 0 })
		accepted := w.accepted()
		for id, ok := range acknowledged {
			if n := accepted[id]; n > 1 || ok && n == 0 {
				t.Errorf("message %s was accepted %d times, acknowledged: %v", id, n, ok)
			}
		}
		if len(accepted) == 0 {
			t.Error("no message was accepted")
		}
	})
}

// open returns the runs that have not ended.
func (w *world) open() (open []event.RunID) {
	for _, r := range w.snapshot().Runs {
		if r.Place != store.PlaceEnded {
			open = append(open, r.Run)
		}
	}
	return open
}

// accepted counts in the logs of all runs how many runs have received each message, or name
// it at their end as one that the code did not take.
func (w *world) accepted() map[event.ItemID]int {
	w.t.Helper()
	n := map[event.ItemID]int{}
	for _, r := range w.snapshot().Runs {
		received, unread := map[event.ItemID]bool{}, map[event.ItemID]bool{}
		for _, b := range r.Frames {
			f, err := event.DecodeFrame(b)
			if err != nil {
				w.t.Fatal(err)
			}
			for _, e := range f.Events {
				if e.Type == event.MessageReceived {
					received[e.Item] = true
					n[e.Item]++
				}
				for _, id := range e.Unread {
					unread[id] = true
				}
			}
		}
		for id := range unread {
			if !received[id] {
				n[id]++
			}
		}
	}
	return n
}
