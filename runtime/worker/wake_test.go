package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// forgotten reports whether a run is ready although its wake was taken, so that no worker will be
// woken for the run.
func forgotten(ctx context.Context, st store.Store) bool {
	inspector, _ := store.As[store.Inspector](st)
	snap, err := inspector.Inspect(ctx)
	if err != nil {
		return false
	}
	for route := range snap.Ready {
		if !snap.Wakes[route] {
			return true
		}
	}
	return false
}

// TestWake_ThatAFullWorkerHasTakenIsFollowedByAClaim proves that a worker does not wait for wakes
// before it has claimed for every wake that it has taken. The worker has capacity for one run and
// is woken for two partitions. It becomes full after the first, and has free capacity again before
// it waits.
func TestWake_ThatAFullWorkerHasTakenIsFollowedByAClaim(t *testing.T) {
	st := &flowtest.Between{Store: memstore.NewWith(memstore.Config{Partitions: 2})}
	w := flowtest.NewWorld(t, st.Store, workflow.ClientConfig{})
	idle, started, step := make(chan struct{}), make(chan *flowtest.Running, 1), newBarrier()
	var r *flowtest.Running
	var waits, partitions atomic.Int64
	st.Around = func(ctx context.Context, op string, req any, do func() error) error {
		switch op {
		case "wait":
			if waits.Add(1) == 1 {
				close(idle)
				r = <-started
			} else if len(req.(store.Wait).Routes) > 0 && forgotten(ctx, st.Store) {
				t.Error("the worker waits for a wake, and a run is ready whose wake it has taken")
			}
		case "due":
			if partitions.Add(1) == 2 { // the worker cannot claim from the second partition, because it is full
				step.open()
				for ctx.Err() == nil && r.Capacity() == 0 {
					runtime.Gosched()
				}
			}
		}
		return do()
	}
	working := w.WorkOn(st, worker.Config{Concurrency: 1, Runs: 1}, flowtest.AttackStep.As(func(ctx context.Context, n int) (int, error) {
		step.pass(ctx)
		return 2 * n, nil
	}), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	w.Await("the worker to be idle", idle)
	runs := []*workflow.Run[int]{startIn(w, 0, 1), startIn(w, 1, 2)}
	started <- working
	if got := flowtest.Result(w, runs[0]) + flowtest.Result(w, runs[1]); got != 6 {
		t.Errorf("results: got %d, want 6 in all", got)
	}
	if n := partitions.Load(); n < 2 {
		t.Errorf("the worker was full before %d partitions, want 2", n)
	}
}

// startIn starts a run in one of two partitions.
func startIn(w *flowtest.World, partition, n int) *workflow.Run[int] {
	w.T.Helper()
	for i := 0; ; i++ {
		id := fmt.Sprintf("order-%d-%d", n, i)
		if int(event.SlotOf(id))%2 == partition {
			return flowtest.Start(w, flowtest.AttackOnce, n, workflow.WithID(id))
		}
	}
}

// deaf is a store that loses the wakes of partition 1, as if workers took them and died before they
// claimed.
type deaf struct{ store.Store }

// Unwrap returns the wrapped store, which provides its optional interfaces.
func (l deaf) Unwrap() store.Store { return l.Store }

func (l deaf) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	woken, err := l.Store.Wait(ctx, w)
	woken.Claim = slices.DeleteFunc(woken.Claim, func(partition int) bool { return partition == 1 })
	return woken, err
}

// TestREC5_ABusyWorkerClaimsFromEachPartitionThoughAWakeIsLost proves that a busy worker claims
// from each partition although a wake was lost. Other runs are always ready, so no wait of the
// worker ends by its timeout.
func TestREC5_ABusyWorkerClaimsFromEachPartitionThoughAWakeIsLost(t *testing.T) {
	w := flowtest.NewWorld(t, deaf{memstore.NewWith(memstore.Config{Partitions: 2})}, workflow.ClientConfig{})
	flow := flowtest.Flow[int, int]("busy")
	w.Work(worker.Config{NoLocalStart: true}, flowtest.ProbeEvery(time.Second), flowtest.As(flow, func(_ workflow.Context, n int) (int, error) { return n, nil }))
	if got := flowtest.Result(w, flowtest.Start(w, flow, 1, w.In(0, "first"))); got != 1 {
		t.Fatalf("got %d, want 1: the worker has not begun", got)
	}
	lost, done := flowtest.Start(w, flow, 7, w.In(1, "lost")), make(chan int, 1)
	go func() { done <- flowtest.Result(w, lost) }()
	for n := 0; ; n++ {
		select {
		case got := <-done:
			if got != 7 {
				t.Errorf("got %d, want 7", got)
			}
			return
		default:
			flowtest.Result(w, flowtest.Start(w, flow, n, w.In(0, fmt.Sprint(n))))
		}
	}
}

// hinting is a store whose hinted Wait takes no wake. The claim that follows takes it.
type hinting struct {
	store.Store

	t      *testing.T
	clock  *storetest.Clock
	each   bool // the wakes of the store are lost, and instead there is one wake each second
	others bool // another worker takes the wakes

	mu    sync.Mutex
	wake  bool // whether there is a wake that no worker has taken
	lose  int  // number of further hinted claims that take the wake and fail
	lost  bool // whether the last claim has failed
	hints int  // number of hinted claims
	inRow int  // longest sequence of hinted claims
	row   int
}

var errLostClaim = errors.New("the answer was lost")

// Unwrap returns the wrapped store.
func (s *hinting) Unwrap() store.Store { return s.Store }

func (s *hinting) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	if s.each {
		w.Routes = nil
		if at := s.clock.Now().Add(time.Second); at.Before(w.Until) {
			w.Until = at
		}
	}
	woken, err := s.Store.Wait(ctx, w)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.each && woken.Due && err == nil:
		s.wake, woken.Due, woken.Hinted = !s.others, false, []int{0}
	case w.Hinted && len(woken.Claim) > 0:
		s.wake, woken.Claim, woken.Hinted = true, nil, woken.Claim
	}
	return woken, err
}

func (s *hinting) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost && c.Hinted {
		s.t.Error("after a claim that has failed the worker goes by a hint")
	}
	s.lost = false
	if s.row++; !c.Hinted {
		s.row = 0
	} else {
		s.hints, s.inRow = s.hints+1, max(s.inRow, s.row)
	}
	switch {
	case c.Hinted && !s.wake:
		return store.Claimed{}, nil
	case c.Hinted && s.lose > 0:
		s.wake, s.lost, s.lose = false, true, s.lose-1
		return store.Claimed{}, errLostClaim
	}
	s.wake = false
	return s.Store.Claim(ctx, c)
}

func (s *hinting) get(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *n
}

// TestWake_TakenByAClaimThatHasFailedIsFollowedByAnother proves that a worker claims again after a
// failed hinted claim, even without another wake. The failed claim may have taken the wake, and no
// other worker is woken for the run.
func TestWake_TakenByAClaimThatHasFailedIsFollowedByAnother(t *testing.T) {
	st := &hinting{Store: memstore.New(), t: t, lose: 1}
	w := flowtest.NewWorld(t, st.Store, workflow.ClientConfig{})
	idle := make(chan struct{})
	var waits atomic.Int64
	between := &flowtest.Between{Store: st, Around: func(_ context.Context, op string, _ any, do func() error) error {
		if op == "wait" && waits.Add(1) == 1 {
			close(idle)
		}
		return do()
	}}
	w.WorkOn(between, worker.Config{NoLocalStart: true}, flowtest.Double)
	w.Await("the worker to be idle", idle)
	if got := flowtest.Result(w, flowtest.Start(w, flowtest.Doubles, 4)); got != 8 {
		t.Errorf("got %d, want 8", got)
	}
	if st.get(&st.lose) != 0 {
		t.Error("no hinted claim was lost")
	}
}

// TestREC5_AWorkerThatIsHintedAllTheTimeLooksInTime proves that a hinted claim does not count as an
// examination of its partition. The worker makes a full claim in time, however many hints there
// are.
func TestREC5_AWorkerThatIsHintedAllTheTimeLooksInTime(t *testing.T) {
	for name, others := range map[string]bool{"in vain": true, "at runs": false} {
		t.Run(name, func(t *testing.T) {
			clock := storetest.NewClock()
			st := &hinting{Store: memstore.NewWith(memstore.Config{Clock: clock}), t: t, clock: clock, each: true, others: others}
			w := flowtest.NewWorld(t, st.Store, workflow.ClientConfig{})
			w.Clock = clock
			w.WorkOn(st, worker.Config{ClaimExpiry: 10_000 * time.Hour, NoLocalStart: true}, flowtest.Double)
			for st.get(&st.hints) < 50 {
				if !others {
					flowtest.Start(w, flowtest.Doubles, 4)
				}
				before := st.get(&st.hints)
				w.Eventually("there is another hint", func() bool {
					clock.Advance(time.Second)
					return st.get(&st.hints) > before
				})
			}
			if n := st.get(&st.inRow); n > 10 { // the worker makes a full claim every 5 s
				t.Errorf("the worker has followed %d hints, one each second, and not looked once", n)
			}
		})
	}
}
