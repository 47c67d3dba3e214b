package worker_test

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
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

var (
	examined     = flowtest.Flow[int, int]("examined")
	examinedStep = flowtest.AStep[int, int]("examined.step", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1}})
)

// isReady reports whether a worker is ready.
func isReady(w *worker.Worker) bool {
	h := w.Health()
	return len(h.NotReady()) == 0
}

// notReady reports whether a worker is live and is not ready for the given reason only.
func notReady(w *worker.Worker, reason string) bool {
	h := w.Health()
	reasons := h.NotReady()
	return len(h.NotLive()) == 0 && len(reasons) == 1 && strings.Contains(reasons[0], reason)
}

// TestOPS7_HealthFollowsAWorkerFromItsBeginToItsEnd proves which state a worker reports before Run,
// while it executes a step, while it stops and after Run.
func TestOPS7_HealthFollowsAWorkerFromItsBeginToItsEnd(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		if idle := worker.New(w.Client, worker.Config{}); !notReady(idle, "has opened no session yet") {
			t.Errorf("before Run: got %+v", idle.Health())
		}
		busy := newBarrier()
		defer busy.open()
		began := time.Now()
		r := w.Work(worker.Config{Grace: time.Hour}, flowtest.As(examined, examinedStep.Call), examinedStep.As(func(_ context.Context, n int) (int, error) {
			busy.pass(context.Background())
			return n, nil
		}))
		run := flowtest.Start(w, examined, 1)
		w.Await("the step", busy.arrived)
		h := r.Health()
		if reasons := h.NotReady(); len(reasons) > 0 || !h.Reachable || h.Sessions != w.Store.Partitions() || h.Partitions != h.Sessions {
			t.Errorf("while it works: got %+v, not ready because of %q", h, reasons)
		}
		if h.Runs != 1 || h.Steps != 1 || h.Blocked != 0 || h.LastClaim.Before(began) || h.LastAnswer.Before(h.LastClaim) {
			t.Errorf("load and times: got %+v", h)
		}
		r.Halt()
		w.Eventually("the worker is stopping", func() bool { return notReady(r.Worker, "is stopping") })
		if h := r.Health(); !h.Stopping || h.Stopped || h.Steps != 1 {
			t.Errorf("while it stops: got %+v", h)
		}
		busy.open()
		r.Stop()
		if h := r.Health(); !notReady(r.Worker, "has stopped") || !h.Stopped || h.Err != nil || h.Runs+h.Steps != 0 {
			t.Errorf("after Run: got %+v", h)
		}
		w.Work(worker.Config{}, flowtest.As(examined, examinedStep.Call), examinedStep.As(twice))
		flowtest.Result(w, run)
	})
}

// TestOPS7_HealthMakesNoRequest proves that Health sends nothing to the store.
func TestOPS7_HealthMakesNoRequest(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	r := w.Work(worker.Config{Heartbeat: time.Hour, ClaimExpiry: 2 * time.Hour}, flowtest.Echoes, flowtest.ProbeEvery(time.Hour))
	flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "x"))
	// Requests that follow the end of the run are in flight for a moment.
	before, equal := st.Count(), 0
	w.Eventually("the worker is idle", func() bool {
		now := st.Count()
		if equal++; now != before {
			before, equal = now, 0
		}
		time.Sleep(time.Millisecond)
		return equal == 100
	})
	for range 1000 {
		if !isReady(r.Worker) {
			t.Fatalf("got %+v", r.Health())
		}
	}
	if after := st.Count(); after != before {
		t.Errorf("1000 calls made %d requests: %v", after-before, st.Tally())
	}
}

// TestOPS7_ARunErrorIsNotLive proves that a process whose worker has ended with an error should be
// restarted, and that a second call of Run does not hide the first one.
func TestOPS7_ARunErrorIsNotLive(t *testing.T) {
	w := flowtest.NewMemory(t)
	r := worker.New(w.Client, worker.Config{})
	want := r.Run(w.Ctx) // nothing is registered
	h := r.Health()
	if want == nil || !errors.Is(h.Err, want) || len(h.NotLive()) != 1 || len(h.NotReady()) != 1 {
		t.Errorf("Run returned %v, got %+v", want, h)
	}
	again := w.Work(worker.Config{}, flowtest.Echoes)
	w.Eventually("the worker is ready", func() bool { return isReady(again.Worker) })
	if err := again.Run(w.Ctx); err == nil || !isReady(again.Worker) {
		t.Errorf("Run returned %v, got %+v", err, again.Health())
	}
}

// TestOPS7_AnExpiredSessionIsNotReadyUntilItIsReopened proves that a worker whose session has
// expired is live, and is ready again with its next session.
func TestOPS7_AnExpiredSessionIsNotReadyUntilItIsReopened(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	var expired, refused atomic.Bool
	st.Around = func(_ context.Context, op string, _ any, do func() error) error {
		switch {
		case op == "heartbeat" && expired.Swap(false):
			return store.ErrExpired
		case op == "open" && refused.Load():
			return errNoAnswer
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	r := w.Work(worker.Config{Heartbeat: 5 * time.Millisecond, ClaimExpiry: time.Minute}, flowtest.Echoes)
	w.Eventually("the worker is ready", func() bool { return isReady(r.Worker) })
	refused.Store(true)
	expired.Store(true)
	w.Eventually("the session has expired", func() bool {
		h := r.Health()
		return len(h.NotLive()) == 0 && slices.Contains(h.NotReady(), "the session has expired")
	})
	refused.Store(false)
	w.Eventually("the worker is ready again", func() bool { return isReady(r.Worker) })
	if got := flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "x")); got != "x" {
		t.Errorf("got %q", got)
	}
}

// TestOPS7_AWorkerIsReadyWhileAPartitionAnswers proves that a worker without the server of some
// partitions is ready, reports how many sessions it has, and has all again when the server is back.
func TestOPS7_AWorkerIsReadyWhileAPartitionAnswers(t *testing.T) {
	st := &flowtest.Between{Store: flowtest.Stores["memory in 3 partitions"](t)}
	var lost atomic.Bool
	var first sync.Map // sessions of partition 0
	st.Around = func(_ context.Context, op string, req any, do func() error) error {
		of := -1
		switch r := req.(type) {
		case store.Session:
			if of = r.Partition; of == 0 {
				first.Store(r.ID, true)
			}
		case store.SessionID:
			if _, ok := first.Load(r); ok && op == "heartbeat" {
				of = 0
			}
		case store.Claim:
			of = r.Partition
		}
		if of == 0 && lost.Load() {
			return errNoAnswer
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	r := w.Work(worker.Config{Heartbeat: 20 * time.Millisecond, ClaimExpiry: time.Second}, flowtest.Echoes)
	sessions := func(want int) func() bool {
		return func() bool { h := r.Health(); return h.Sessions == want && h.Partitions == 3 && isReady(r.Worker) }
	}
	w.Eventually("all sessions are alive", sessions(3))
	lost.Store(true)
	w.Eventually("a session is in doubt", sessions(2))
	lost.Store(false)
	w.Eventually("all sessions are alive again", sessions(3))
}

// TestOPS7_AStoreThatDoesNotAnswerIsNotReadyAndLive proves that a worker without a store is not
// restarted, because that would not help, and is ready again when the store is.
func TestOPS7_AStoreThatDoesNotAnswerIsNotReadyAndLive(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	var hangs atomic.Bool
	back := newBarrier()
	defer back.open()
	st.Around = func(ctx context.Context, op string, _ any, do func() error) error {
		if hangs.Load() && op != "close" { // for example a SQLite file that a stopped process has locked
			back.pass(ctx)
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.TakesLong()
	r := worker.New(w.Client, worker.Config{Heartbeat: 20 * time.Millisecond, ClaimExpiry: time.Hour, NoLocalStart: true})
	flowtest.StuckAfter(500 * time.Millisecond)(r) // much less than the store is away
	flowtest.Echoes(r)
	flowtest.ProbeEvery(20 * time.Millisecond)(r)
	ctx, stop := context.WithCancel(w.Ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	w.Eventually("the worker is ready", func() bool { return isReady(r) })
	hangs.Store(true)
	w.Eventually("the store is missed", func() bool { return notReady(r, "the store has not answered for 3s") })
	if h := r.Health(); h.Reachable || h.Sessions != 1 || len(h.NotLive()) > 0 {
		t.Errorf("without the store: got %+v", h)
	}
	hangs.Store(false)
	back.open()
	w.Eventually("the worker is ready again", func() bool { return isReady(r) })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestOPS7_BlockedUserCodeIsLive proves that a worker with runs whose code blocks is ready, because
// other runs continue.
func TestOPS7_BlockedUserCodeIsLive(t *testing.T) {
	w := flowtest.NewMemory(t)
	gate := newBarrier()
	defer gate.open()
	r := worker.New(w.Client, worker.Config{BlockedAfter: 20 * time.Millisecond, NoLocalStart: true})
	flowtest.StuckAfter(time.Second)(r)
	flowtest.Echoes(r)
	flowtest.As(examined, func(_ workflow.Context, n int) (int, error) {
		gate.pass(context.Background())
		return n, nil
	})(r)
	ctx, stop := context.WithCancel(w.Ctx)
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	n := 2 * runtime.GOMAXPROCS(0)
	var runs []*workflow.Run[int]
	for i := range n {
		runs = append(runs, flowtest.Start(w, examined, i))
	}
	w.Eventually("all of them block", func() bool { return r.Health().Blocked == n })
	until := time.Now().Add(2 * time.Second) // longer than the bound for loops
	for time.Now().Before(until) {
		if got := flowtest.Result(w, flowtest.Start(w, flowtest.Echo, "x")); got != "x" {
			t.Errorf("got %q", got)
		}
		if h := r.Health(); len(h.NotReady()) > 0 {
			t.Fatalf("got %q", h.NotReady())
		}
	}
	gate.open()
	for i, run := range runs {
		if got := flowtest.Result(w, run); got != i {
			t.Errorf("got %d, want %d", got, i)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// clogged is a handler of logs that blocks at lines with a text, as a full pipe does.
type clogged struct {
	slog.Handler
	text string
	gate *barrier
}

func (c clogged) WithAttrs(a []slog.Attr) slog.Handler { c.Handler = c.Handler.WithAttrs(a); return c }

func (c clogged) Handle(ctx context.Context, r slog.Record) error {
	if c.text != "" && strings.Contains(r.Message, c.text) {
		c.gate.pass(context.Background())
	}
	return c.Handler.Handle(ctx, r)
}

// clogging is a store whose damage report blocks, and whose heartbeats report restored runs, while
// the corresponding flag is set.
type clogging struct {
	store.Store
	damages, restores atomic.Bool
	gate              *barrier
}

func (s *clogging) Unwrap() store.Store { return s.Store }

func (s *clogging) Damage() []*store.DamagedError {
	if s.damages.Load() {
		s.gate.pass(context.Background())
	}
	return nil
}

func (s *clogging) Heartbeat(ctx context.Context, partition int, id store.SessionID) (store.Heartbeat, error) {
	beat, err := s.Store.Heartbeat(ctx, partition, id)
	if s.restores.Load() {
		beat.Restored = []event.RunID{"lost"}
	}
	return beat, err
}

// TestOPS7_AStuckLoopIsNotLive proves that a worker is not live if one of its loops cannot proceed,
// for example because a line of its log is not accepted, and that it is live again afterwards.
func TestOPS7_AStuckLoopIsNotLive(t *testing.T) {
	fails := func(w *flowtest.World) {
		for i := range 4*runtime.GOMAXPROCS(0) + 4 {
			flowtest.Start(w, examined, i)
		}
	}
	for loop, tt := range map[string]struct {
		line      string
		heartbeat time.Duration
		jam       func(*flowtest.World, *clogging)
	}{
		"the claim loop":        {"", time.Hour, func(_ *flowtest.World, s *clogging) { s.damages.Store(true) }},
		"the heartbeats":        {"runs that no worker would have found", 10 * time.Millisecond, func(_ *flowtest.World, s *clogging) { s.restores.Store(true) }},
		"the executors of runs": {"step failed", time.Hour, func(w *flowtest.World, _ *clogging) { fails(w) }},
		"the watchdog": {"code of a run blocks", time.Hour, func(w *flowtest.World, _ *clogging) {
			flowtest.Start(w, occupied, 1)
		}},
	} {
		t.Run(loop, func(t *testing.T) {
			st := &clogging{Store: memstore.New(), gate: newBarrier()}
			defer st.gate.open()
			w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
			r := worker.New(w.Client, worker.Config{
				Heartbeat: tt.heartbeat, ClaimExpiry: 2 * time.Hour, BlockedAfter: 20 * time.Millisecond, NoLocalStart: true,
				Logger: slog.New(clogged{slog.NewTextHandler(w.Logs, nil), tt.line, st.gate}),
			})
			flowtest.StuckAfter(300 * time.Millisecond)(r)
			flowtest.ProbeEvery(20 * time.Millisecond)(r)
			flowtest.As(examined, examinedStep.Call)(r)
			examinedStep.As(func(context.Context, int) (int, error) { return 0, errors.New("it fails") })(r)
			hangs := newBarrier()
			defer hangs.open()
			flowtest.As(occupied, func(_ workflow.Context, n int) (int, error) {
				hangs.pass(context.Background())
				return n, nil
			})(r)
			ctx, stop := context.WithCancel(w.Ctx)
			ended := make(chan error, 1)
			go func() { ended <- r.Run(ctx) }()
			w.Eventually("the worker is ready", func() bool { return isReady(r) })
			tt.jam(w, st)
			w.Await("the loop", st.gate.arrived)
			w.Eventually("the loop is stuck", func() bool {
				h := r.Health()
				return slices.Equal(h.Stuck, []string{loop}) && len(h.NotLive()) == 1 && strings.HasPrefix(h.NotReady()[0], loop+" made no progress")
			})
			st.gate.open()
			hangs.open()
			w.Eventually("it is live again", func() bool { return isReady(r) })
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOPS7_AWorkerIsReadyDuringAQuarantine proves that a worker which executes a quarantined run
// alone, while other runs wait, is live and ready.
func TestOPS7_AWorkerIsReadyDuringAQuarantine(t *testing.T) {
	w := flowtest.NewMemory(t)
	suspect := flowtest.Start(w, killerFlow, 7)
	alone := newBarrier()
	defer alone.open()
	var attempts atomic.Int64
	var current atomic.Pointer[worker.Worker]
	w.Keep(1, worker.Config{}, func(die func()) []flowtest.Binding {
		return []flowtest.Binding{
			func(r workflow.Registrar) { current.Store(r.(*worker.Worker)) },
			flowtest.As(crowdFlow, func(_ workflow.Context, n int) (int, error) { return n, nil }),
			flowtest.As(killerFlow, killerStep.Call),
			killerStep.As(func(ctx context.Context, n int) (int, error) {
				if attempts.Add(1) <= 3 {
					die()
					return 0, ctx.Err()
				}
				alone.pass(ctx)
				return n, ctx.Err()
			}),
		}
	})
	w.Await("the attempt in quarantine", alone.arrived)
	other := flowtest.Start(w, crowdFlow, 1)
	if h := current.Load().Health(); len(h.NotReady()) > 0 || h.Runs != 1 || h.Steps != 1 {
		t.Errorf("got %+v, not ready because of %q", h, h.NotReady())
	}
	alone.open()
	if got := flowtest.Result(w, suspect); got != 7 {
		t.Errorf("got %d", got)
	}
	flowtest.Result(w, other)
}
