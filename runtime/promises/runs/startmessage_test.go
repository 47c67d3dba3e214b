package runs_test

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
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	// triesFlow receives the messages that exist when its code begins. Then it waits for n numbers.
	triesFlow = flowtest.Flow[int, []int]("tries")
	tries     = flowtest.As(triesFlow, func(ctx workflow.Context, n int) (all []int, err error) {
		for {
			v, ok, err := flowtest.Numbers.TryReceive(ctx)
			if err != nil || !ok {
				break
			}
			all = append(all, v)
		}
		for range n {
			v, err := flowtest.Numbers.Receive(ctx)
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
	return workflow.WithMessage(flowtest.Numbers, n, opts...)
}

func TestFLOW5_AStartHasItsMessagesBeforeTheCodeBegins(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Near = true // with a local start, the code could begin before the messages are read
		w.Work(worker.Config{}, tries)
		for n := range 20 {
			run := flowtest.Start(w, triesFlow, 0, numbered(n), numbered(-n), numbered(100))
			if !run.Created() {
				t.Errorf("run %s was not created", run.ID())
			}
			if diff := cmp.Diff([]int{n, -n, 100}, flowtest.Result(w, run)); diff != "" {
				t.Fatalf("received (-want +got):\n%s", diff)
			}
		}
	})
}

func TestFLOW5_AStartOfAnActiveRunSendsItTheMessage(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		first := flowtest.Start(w, flowtest.Collects, 5, workflow.WithID("collector"), numbered(1), numbered(2, workflow.IdempotencyKey("two")))
		again := flowtest.Start(w, flowtest.Collects, 1, workflow.WithID("collector"), numbered(2, workflow.IdempotencyKey("two")), numbered(3))
		if again.Created() || again.ID() != first.ID() {
			t.Errorf("second start: got run %s, created %v, want run %s", again.ID(), again.Created(), first.ID())
		}
		if err := flowtest.Numbers.Send(w.Ctx, first, 2, workflow.IdempotencyKey("two")); err != nil {
			t.Error(err)
		}
		w.Work(worker.Config{}, flowtest.Collect)
		flowtest.Start(w, flowtest.Collects, 1, workflow.WithID("collector"), numbered(4), numbered(5, workflow.IdempotencyKey("5")), numbered(5, workflow.IdempotencyKey("5")))
		if diff := cmp.Diff([]int{1, 2, 3, 4, 5}, flowtest.Result(w, first)); diff != "" {
			t.Errorf("received (-want +got):\n%s", diff)
		}
	})
}

func TestFLOW5_AStartThatIsRefusedSendsNoMessage(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		run := flowtest.Start(w, flowtest.Collects, 1, workflow.WithID("collector"))
		inputs := func(what string, err error, want any) {
			t.Helper()
			if err == nil || !errors.As(err, want) {
				t.Errorf("%s: got %v, want a %T", what, err, want)
			}
		}
		fails := workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.FailActive})
		_, err := flowtest.Collects.Start(w.Ctx, w.Client, 1, workflow.WithID("collector"), fails, numbered(1))
		inputs("start that fails", err, new(*workflow.ActiveRunError))
		_, err = triesFlow.Start(w.Ctx, w.Client, 1, workflow.WithID("collector"), numbered(1))
		if !errors.Is(err, workflow.ErrWrongWorkflow) {
			t.Errorf("start of another workflow: got %v, want ErrWrongWorkflow", err)
		}
		_, err = flowtest.Collects.Start(w.Ctx, w.Client, 1, workflow.WithID("collector"), numbered(1), workflow.WithMessage(phrases, strings.Repeat("x", workflow.DefaultMaxPayload)))
		inputs("message that is too large", err, new(*workflow.PayloadError))
		_, err = flowtest.Collects.Start(w.Ctx, w.Client, 1, workflow.WithID("collector"), numbered(1), workflow.WithMessage(phrases, "\xff"))
		inputs("message that is not UTF-8", err, new(*workflow.PayloadError))
		if err := flowtest.Numbers.Send(w.Ctx, run, 7); err != nil {
			t.Fatal(err)
		}
		w.Work(worker.Config{}, flowtest.Collect)
		if diff := cmp.Diff([]int{7}, flowtest.Result(w, run)); diff != "" {
			t.Errorf("received (-want +got):\n%s", diff)
		}
		rejects := workflow.WithIDPolicy(workflow.IDPolicy{Finished: workflow.RejectFinished})
		_, err = flowtest.Collects.Start(w.Ctx, w.Client, 1, workflow.WithID("collector"), rejects, numbered(1))
		inputs("start after the end", err, new(*workflow.FinishedRunError))
		if n := len(flowtest.Filter(w.Log(run), event.MessageReceived)); n != 1 {
			t.Errorf("the log has %d messages, want 1", n)
		}
	})
}

func TestFLOW5_ARunForLaterIsNotWokenByTheMessagesOfItsStart(t *testing.T) {
	w := flowtest.NewVirtual(t)
	w.Work(worker.Config{}, tries)
	later := flowtest.Start(w, triesFlow, 0, workflow.WithDelay(time.Hour), numbered(1))
	held := flowtest.Start(w, triesFlow, 0, workflow.WithHoldFor(24*time.Hour), numbered(2))
	// A woken run would begin before this run, which was started last.
	if diff := cmp.Diff([]int{3}, flowtest.Result(w, flowtest.Start(w, triesFlow, 0, numbered(3)))); diff != "" {
		t.Errorf("received (-want +got):\n%s", diff)
	}
	for _, run := range []*workflow.Run[[]int]{later, held} {
		loaded, err := w.Store.Load(w.Ctx, []store.Load{{Run: run.ID(), Inbox: true}})
		if err != nil || loaded[0].Record.QueueState != store.StateParked || loaded[0].Record.N != 1 || len(loaded[0].Inbox) != 1 {
			t.Errorf("run for later: got %+v, %v, want it parked with one frame and one item", loaded, err)
		}
	}
	w.Clock.Advance(time.Hour)
	if diff := cmp.Diff([]int{1}, flowtest.Result(w, later)); diff != "" {
		t.Errorf("received (-want +got):\n%s", diff)
	}
	if err := held.Release(w.Ctx); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{2}, flowtest.Result(w, held)); diff != "" {
		t.Errorf("received (-want +got):\n%s", diff)
	}
}

func TestFLOW5_ARunInLineKeepsTheMessagesOfItsStart(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		replaces := workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.CancelActive})
		first := flowtest.Start(w, flowtest.Collects, 2, workflow.WithID("collector"), numbered(1))
		second := flowtest.Start(w, flowtest.Collects, 2, workflow.WithID("collector"), replaces, numbered(2), numbered(3))
		w.Work(worker.Config{}, flowtest.Collect)
		if e := flowtest.Failure(w, first); e.Status != workflow.StatusCanceled {
			t.Errorf("first run: got %s, want canceled", e.Status)
		}
		if diff := cmp.Diff([]int{2, 3}, flowtest.Result(w, second)); diff != "" {
			t.Errorf("received (-want +got):\n%s", diff)
		}
	})
}

func TestFLOW5_StartManyGivesEachRunItsMessages(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Near = true
		w.Work(worker.Config{}, flowtest.Collect)
		flowtest.Start(w, flowtest.Collects, 2, workflow.WithID("there"))
		var requests []workflow.StartRequest[int]
		for n := range 6 {
			requests = append(requests, workflow.StartRequest[int]{Input: 1, Options: []workflow.StartOption{numbered(n)}})
		}
		requests[2].Options = nil
		for _, n := range []int{1, 4} { // these two starts have the same workflow ID
			requests[n].Options = append(requests[n].Options, workflow.WithID("there"))
		}
		started, err := flowtest.Collects.StartMany(w.Ctx, w.Client, requests)
		if err != nil {
			t.Fatal(err)
		}
		for n, want := range [][]int{{0}, {1, 4}, {9}, {3}, {1, 4}, {5}} {
			if started[n].Err != nil {
				t.Errorf("start %d: %v", n, started[n].Err)
				continue
			}
			if n == 2 {
				if err := flowtest.Numbers.Send(w.Ctx, started[n].Run, 9); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(want, flowtest.Result(w, started[n].Run)); diff != "" {
				t.Errorf("run %d received (-want +got):\n%s", n, diff)
			}
		}
	})
}

func TestFLOW5_ARunThatEndsBeforeItHasTheMessageOfAStartIsFollowedByANewOne(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		first := flowtest.Start(w, flowtest.Collects, 1, workflow.WithID("collector"))
		deliveries := 0
		c := endsBefore(w, func(d store.Deliver) bool {
			if deliveries++; deliveries != 2 {
				return false
			}
			w.Work(worker.Config{}, flowtest.Collect) // the worker ends the run with the first message, before the second one is delivered
			return true
		})
		second, err := flowtest.Collects.Start(w.Ctx, c, 2, workflow.WithID("collector"), numbered(1), numbered(2), numbered(3))
		if err != nil {
			t.Fatal(err)
		}
		if !second.Created() || second.ID() == first.ID() {
			t.Errorf("got run %s, created %v, want a new one after %s", second.ID(), second.Created(), first.ID())
		}
		if diff := cmp.Diff([]int{1}, flowtest.Result(w, first)); diff != "" {
			t.Errorf("the first run received (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]int{2, 3}, flowtest.Result(w, second)); diff != "" {
			t.Errorf("the second run received (-want +got):\n%s", diff)
		}
	})
}

func TestFLOW5_AStartWithAMessageThatFindsNoRunEndsWithItsContext(t *testing.T) {
	w := flowtest.NewMemory(t)
	run := flowtest.Start(w, flowtest.Collects, 1, workflow.WithID("collector"))
	ctx, cancel := context.WithCancel(w.Ctx)
	st := &flowtest.Between{Store: w.Store, Around: func(_ context.Context, op string, _ any, do func() error) error {
		if op != "deliver" {
			return do()
		}
		cancel()
		return &store.TerminalError{Run: run.ID(), Status: event.StatusCompleted} // claims that the run has ended, although it is active
	}}
	_, err := flowtest.Collects.Start(ctx, flowtest.NewClient(st, workflow.ClientConfig{}), 1, workflow.WithID("collector"), numbered(1))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// TestFLOW5_NoMessageOfAStartIsLostOrAcceptedTwice proves that exactly one run accepts the message
// of each successful start, once. The message of a start that fails is accepted at most once.
// Requests and answers are lost, and runs end at any time.
func TestFLOW5_NoMessageOfAStartIsLostOrAcceptedTwice(t *testing.T) {
	const senders, each = 6, 15
	errLost := errors.New("lost")
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		w.Work(worker.Config{}, flowtest.Collect)
		var mu sync.Mutex
		acknowledged := map[event.ItemID]bool{}
		draw := rand.New(rand.NewPCG(rand.Uint64(), 1))
		chance := func(percent int) bool {
			mu.Lock()
			defer mu.Unlock()
			return draw.IntN(100) < percent
		}
		st := &flowtest.Between{Store: w.Store, Around: func(ctx context.Context, op string, req any, do func() error) error {
			if op != "create" && op != "deliver" {
				return do()
			}
			if d, ok := req.(store.Deliver); ok && chance(30) {
				_, _ = flowtest.Collects.Get(w.Client, d.Run).Result(ctx) // waits until the run has ended, which its first message causes
			}
			if chance(10) {
				return errLost
			}
			err := do()
			if chance(10) {
				_ = do() // as if an intermediary had repeated the request
			}
			if chance(10) {
				return errLost
			}
			return err
		}}
		c := flowtest.NewClient(st, workflow.ClientConfig{})
		var all sync.WaitGroup
		for s := range senders {
			all.Go(func() {
				for n := range each {
					key := fmt.Sprint(s*each + n)
					_, err := flowtest.Collects.Start(w.Ctx, c, 1, workflow.WithID(fmt.Sprint("collector ", n%2)), numbered(0, workflow.IdempotencyKey(key)))
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
		w.Eventually("all runs have ended", func() bool { return len(w.Open()) == 0 })
		counts := accepted(w)
		for id, ok := range acknowledged {
			if n := counts[id]; n > 1 || ok && n == 0 {
				t.Errorf("message %s was accepted %d times, acknowledged: %v", id, n, ok)
			}
		}
		if len(counts) == 0 {
			t.Error("no message was accepted")
		}
	})
}

// endsBefore returns a client that delays some deliveries until their run has ended. These are the
// deliveries for which ends returns true.
func endsBefore(w *flowtest.World, ends func(d store.Deliver) bool) *workflow.Client {
	st := &flowtest.Between{Store: w.Store, Around: func(ctx context.Context, op string, req any, do func() error) error {
		if d, ok := req.(store.Deliver); ok && op == "deliver" && ends(d) {
			_, _ = flowtest.Collects.Get(w.Client, d.Run).Result(ctx)
		}
		return do()
	}}
	return flowtest.NewClient(st, workflow.ClientConfig{})
}

// accepted returns for each message the number of runs that have accepted it. The log of such a run
// contains the message as received, or the last event lists it as unread.
func accepted(w *flowtest.World) map[event.ItemID]int {
	w.T.Helper()
	n := map[event.ItemID]int{}
	for _, r := range w.Snapshot().Runs {
		received, unread := map[event.ItemID]bool{}, map[event.ItemID]bool{}
		for _, e := range w.Decode(r.Frames) {
			if e.Type == event.MessageReceived {
				received[e.Item] = true
				n[e.Item]++
			}
			for _, id := range e.Unread {
				unread[id] = true
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
