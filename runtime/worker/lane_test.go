package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// requestTimeout is how long broken waits for an answer of the lost partition.
const requestTimeout = 300 * time.Millisecond

var errSilent = errors.New("the partition does not answer")

// broken is a store with one partition that does not answer while lost is set. Its calls fail at
// once or after requestTimeout.
type broken struct {
	store.Store
	partition int
	hangs     bool
	lost      atomic.Bool
	healed    chan struct{}
}

func newBroken(hangs bool) *broken {
	return &broken{
		Store:     memstore.NewWith(memstore.Config{Partitions: 3}),
		partition: 1, hangs: hangs, healed: make(chan struct{}),
	}
}

func (s *broken) Unwrap() store.Store { return s.Store }

func (s *broken) heal() {
	s.lost.Store(false)
	close(s.healed)
}

func (s *broken) of(run event.RunID) bool { return int(run.Slot())%3 == s.partition }

// fail returns the error of a call to the given partition, or nil if the partition answers.
func (s *broken) fail(ctx context.Context, partition int) error {
	if partition != s.partition || !s.lost.Load() {
		return nil
	}
	if s.hangs {
		select {
		case <-time.After(requestTimeout):
		case <-s.healed:
		case <-ctx.Done():
		}
	}
	return errSilent
}

func (s *broken) OpenSession(ctx context.Context, o store.Session) error {
	if err := s.fail(ctx, o.Partition); err != nil {
		return err
	}
	return s.Store.OpenSession(ctx, o)
}

func (s *broken) Heartbeat(ctx context.Context, p int, id store.SessionID) (store.Heartbeat, error) {
	if err := s.fail(ctx, p); err != nil {
		return store.Heartbeat{}, err
	}
	return s.Store.Heartbeat(ctx, p, id)
}

func (s *broken) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if err := s.fail(ctx, c.Partition); err != nil {
		return store.Claimed{}, err
	}
	return s.Store.Claim(ctx, c)
}

func (s *broken) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	return divided(ctx, s, commits, func(c store.Commit) event.RunID { return c.Run }, s.Store.Commit, func(err error) store.Committed { return store.Committed{Err: err} })
}

func (s *broken) Load(ctx context.Context, loads []store.Load) ([]store.Loaded, error) {
	return divided(ctx, s, loads, func(l store.Load) event.RunID { return l.Run }, s.Store.Load, func(err error) store.Loaded { return store.Loaded{Err: err} })
}

func (s *broken) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	return divided(ctx, s, runs, func(c store.Create) event.RunID { return c.Run }, s.Store.Create, func(err error) store.Created { return store.Created{Err: err} })
}

// divided executes the requests to the available partitions. The other requests are answered with
// an unknown outcome.
func divided[Q, A any](ctx context.Context, s *broken, all []Q, run func(Q) event.RunID, ask func(context.Context, []Q) ([]A, error), unknown func(error) A) ([]A, error) {
	var good []Q
	var where []int
	for i, q := range all {
		if !s.lost.Load() || !s.of(run(q)) {
			good, where = append(good, q), append(where, i)
		}
	}
	if len(good) < len(all) {
		_ = s.fail(ctx, s.partition)
	}
	if len(good) == 0 {
		return nil, errSilent
	}
	got, err := ask(ctx, good)
	if err != nil {
		return nil, err
	}
	answers := make([]A, len(all))
	for i := range answers {
		answers[i] = unknown(errSilent)
	}
	for i, at := range where {
		answers[at] = got[i]
	}
	return answers, nil
}

// named returns n workflow IDs whose runs are in the lost partition, or outside of it if in is
// false.
func (s *broken) named(n int, in bool) (names []string) {
	for i := 0; len(names) < n; i++ {
		name := fmt.Sprintf("run-%d", i)
		if (int(event.SlotOf(name))%3 == s.partition) == in {
			names = append(names, name)
		}
	}
	return names
}

// TestREC10_TheOtherPartitionsGoOnWhileOneDoesNotAnswer proves that a partition that does not
// answer delays its own runs and no others.
func TestREC10_TheOtherPartitionsGoOnWhileOneDoesNotAnswer(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		for _, when := range []string{"while it works", "before it starts"} {
			t.Run(fmt.Sprintf("hangs %t, lost %s", hangs, when), func(t *testing.T) {
				t.Parallel()
				st := newBroken(hangs)
				w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
				begin := make(chan struct{})
				work := func() {
					w.Work(worker.Config{}, flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call), flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
						if n < 0 {
							select {
							case <-begin: // the step is running when the partition is lost
							case <-ctx.Done():
							}
						}
						return twice(ctx, n)
					}))
				}
				var caught []*workflow.Run[int]
				for _, name := range st.named(5, true) {
					caught = append(caught, flowtest.Start(w, flowtest.AttackOnce, -4, workflow.WithID(name)))
				}
				if when == "while it works" {
					work()
					for _, run := range caught {
						w.Reach(run, event.StepStarted, 1)
					}
				}
				st.lost.Store(true)
				close(begin)
				if when != "while it works" {
					work()
				}
				for _, name := range st.named(60, false) {
					if got := flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, 4, workflow.WithID(name))); got != 8 {
						t.Errorf("result: got %d, want 8", got)
					}
				}
				st.heal()
				for _, run := range caught {
					if got := flowtest.Result(w, run); got != -8 {
						t.Errorf("result after the partition is back: got %d, want -8", got)
					}
				}
			})
		}
	}
}

// TestREC10_ABatchThatCannotPassGetsSmaller proves that a batch that is too large to succeed gets
// smaller until it succeeds.
func TestREC10_ABatchThatCannotPassGetsSmaller(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	var refused atomic.Int64
	st.Around = func(_ context.Context, op string, req any, do func() error) error {
		commits, _ := req.([]store.Commit)
		loads, _ := req.([]store.Load)
		if op == "commit" && len(commits) > 2 || op == "load" && len(loads) > 2 {
			refused.Add(1)
			return errSilent
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	var arrived sync.WaitGroup
	arrived.Add(60)
	w.Work(worker.Config{Parked: 1}, flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call), flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
		arrived.Done()
		arrived.Wait() // wait for all, so that the runs commit at the same time
		return twice(ctx, n)
	}))
	var runs []*workflow.Run[int]
	for range 60 {
		runs = append(runs, flowtest.Start(w, flowtest.AttackOnce, 4))
	}
	for _, run := range runs {
		if got := flowtest.Result(w, run); got != 8 {
			t.Errorf("result: got %d, want 8", got)
		}
	}
	if refused.Load() == 0 {
		t.Error("no batch was refused: the test proves nothing")
	}
}

// TestREC10_ACommitThatAlwaysFailsKeepsNoOtherRun proves that a commit that the store never answers
// does not delay other runs.
func TestREC10_ACommitThatAlwaysFailsKeepsNoOtherRun(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	var lost atomic.Pointer[event.RunID]
	st.Around = func(_ context.Context, op string, req any, do func() error) error {
		commits, _ := req.([]store.Commit)
		for i := range commits {
			if run := lost.Load(); op == "commit" && run != nil && commits[i].Run == *run {
				return errSilent
			}
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Work(worker.Config{}, flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call), flowtest.AttackStep.As(twice))
	bad := flowtest.Start(w, flowtest.AttackOnce, 4, workflow.WithDelay(50*time.Millisecond))
	id := bad.ID()
	lost.Store(&id)
	for range 50 {
		if got := flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, 4)); got != 8 {
			t.Errorf("result: got %d, want 8", got)
		}
	}
	lost.Store(nil)
	if got := flowtest.Result(w, bad); got != 8 {
		t.Errorf("result of the one that failed: got %d, want 8", got)
	}
}

// TestSTEP11_ACommitThatNoStoreTakesBlocksItsRunAlone proves that a commit that the store rejects
// permanently blocks its run with a reason that names the run. The slots of the run become free for
// other runs.
func TestSTEP11_ACommitThatNoStoreTakesBlocksItsRunAlone(t *testing.T) {
	const limit = 1 << 20
	w := flowtest.NewWorld(t, &tooLarge{Store: memstore.New(), limit: limit}, workflow.ClientConfig{MaxPayload: 4 << 20})
	w.Work(worker.Config{Concurrency: 2}, flowtest.As(sizes, func(ctx workflow.Context, n int) (int, error) {
		s, err := sized.Call(ctx, strings.Repeat("x", n))
		return len(s), err
	}), sized.As(func(_ context.Context, s string) (string, error) { return s[:1], nil }))
	var bad []*workflow.Run[int]
	for range 3 { // more runs than there are slots
		bad = append(bad, flowtest.Start(w, sizes, 2*limit))
	}
	for _, run := range bad {
		w.Eventually("the run is blocked", func() bool {
			info, err := run.Info(w.Ctx)
			return err == nil && info.Status == workflow.StatusBlocked
		})
	}
	if got := flowtest.Result(w, flowtest.Start(w, sizes, 10)); got != 1 {
		t.Errorf("result of another run: got %d, want 1", got)
	}
	for _, run := range bad {
		info, err := run.Info(w.Ctx)
		if err != nil || !flowtest.ContainsAll(info.Blocked, string(run.ID()), "exceed the limit of the store", "step_created", "bytes") {
			t.Errorf("it is blocked because of %q, %v: want the run, the reason, the event and the size", info.Blocked, err)
		}
	}
}

var (
	sizes = flowtest.Flow[int, int]("sizes")
	sized = flowtest.AStep[string, string]("sized", shim.Policy{Retry: flowtest.Quick})
)

// tooLarge is a store that rejects frames above a limit.
type tooLarge struct {
	store.Store
	limit int
}

func (s *tooLarge) Unwrap() store.Store { return s.Store }

func (s *tooLarge) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	answers := make([]store.Committed, len(commits))
	for i, c := range commits {
		if len(c.Frame) > s.limit {
			answers[i].Err = &store.TooLargeError{Run: c.Run, Bytes: len(c.Frame), Err: errors.New("the limit is lower")}
			continue
		}
		got, err := s.Store.Commit(ctx, []store.Commit{c})
		if err != nil {
			return nil, err
		}
		answers[i] = got[0]
	}
	return answers, nil
}

// TestSTEP11_AFanOfLargeStepsIsCommittedInParts proves that the events of code that requests many
// large operations at once are committed in frames of bounded size.
func TestSTEP11_AFanOfLargeStepsIsCommittedInParts(t *testing.T) {
	const steps, arg = 100, 120 << 10 // 12 MB in total
	for _, near := range []bool{false, true} {
		t.Run(fmt.Sprintf("begun by its client's worker: %t", near), func(t *testing.T) {
			st := &flowtest.Between{Store: memstore.New()}
			var longest atomic.Int64
			note := func(frame []byte) { longest.Store(max(longest.Load(), int64(len(frame)))) }
			st.Around = func(_ context.Context, _ string, req any, do func() error) error {
				commits, _ := req.([]store.Commit)
				for i := range commits {
					note(commits[i].Frame)
				}
				creates, _ := req.([]store.Create)
				for i := range creates {
					note(creates[i].Frame)
				}
				return do()
			}
			w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
			w.Near = near
			w.Work(worker.Config{Concurrency: 4}, flowtest.As(sizes, func(ctx workflow.Context, n int) (int, error) {
				all, err := workflow.Map(ctx, make([]int, n), func(ctx workflow.Context, _ int) (string, error) {
					return sized.Call(ctx, strings.Repeat("x", arg))
				})
				return len(all), err
			}), sized.As(func(_ context.Context, s string) (string, error) { return s[:1], nil }))
			if got := flowtest.Result(w, flowtest.Start(w, sizes, steps)); got != steps {
				t.Errorf("result: got %d, want %d", got, steps)
			}
			if n := longest.Load(); n > 5<<20 {
				t.Errorf("the longest frame has %d bytes, want a few megabytes at most", n)
			}
		})
	}
}
