package worker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
)

// impatient is a clock that can be set. It shortens waits of some seconds, such as the engine's
// delays after a failure, and waits of a minute.
type impatient struct{ ahead atomic.Int64 }

func (c *impatient) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func (c *impatient) AfterFunc(d time.Duration, f func()) func() bool {
	switch {
	case d > 500*time.Millisecond && d < 6*time.Second:
		d /= 20
	case d == time.Minute:
		d /= 1000
	}
	return store.SystemClock.AfterFunc(d, f)
}

// jump sets the clock forward or back.
func (c *impatient) jump(d time.Duration) { c.ahead.Add(int64(d)) }

var errNoAnswer = errors.New("the connection broke: nobody knows what has become of the request")

var errNotYet = errors.New("not yet")

// faults decides at random how calls to the store fail.
type faults struct {
	mem  *memstore.Store
	calm atomic.Bool // set to end all faults

	mu  sync.Mutex
	rng *rand.Rand
}

func newFaults(mem *memstore.Store, seed uint64) *faults {
	return &faults{mem: mem, rng: rand.New(rand.NewPCG(seed, 0))}
}

func (f *faults) chance(perMille int) bool { return f.number(1000) < perMille }

func (f *faults) number(below int) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.rng.IntN(below)
}

// store returns a store that applies the faults, for one worker or client.
func (f *faults) store() *flowtest.Between {
	return &flowtest.Between{Store: f.mem, Around: f.around, Answers: f.refuse}
}

// around drops, repeats and delays requests and answers, and ends sessions.
func (f *faults) around(ctx context.Context, op string, req any, do func() error) error {
	if f.calm.Load() || op == "wait" {
		return do()
	}
	if f.chance(60) {
		if err := pause(ctx, time.Duration(f.number(3000))*time.Microsecond); err != nil {
			return err
		}
	}
	if session, ok := sessionOf(op, req); ok && f.chance(15) {
		_ = f.mem.CloseSession(ctx, 0, session) // as if the session had expired and was recovered
	}
	lost := 40
	switch op {
	case "create", "open":
		lost = 0 // the worker does not retry these calls
	case "claim":
		lost = 15
	case "close":
		lost = 300
	}
	if f.chance(lost) {
		return errNoAnswer
	}
	err := do()
	if repeats(op) && f.chance(40) {
		err = do()
	}
	if f.chance(lost) {
		return errNoAnswer
	}
	if f.chance(60) {
		_ = pause(ctx, time.Duration(f.number(3000))*time.Microsecond) // other answers arrive before this one
	}
	return err
}

func repeats(op string) bool { return op != "claim" && op != "wait" && op != "reconcile" }

func sessionOf(op string, req any) (store.SessionID, bool) {
	switch v := req.(type) {
	case store.SessionID:
		return v, op != "close"
	case store.Claim:
		return v.Session, true
	}
	return "", false
}

// refuse replaces the answers of executed commits by errors, so that their outcome is unknown to
// the worker.
func (f *faults) refuse(commits []store.Commit, results []store.Committed) {
	if f.calm.Load() {
		return
	}
	for i := range results {
		if results[i].Err != nil {
			continue
		}
		switch n := f.number(1000); {
		case n < 8:
			results[i] = store.Committed{Err: store.ErrFenced}
		case n < 16:
			results[i] = store.Committed{Err: &store.ConflictError{Run: commits[i].Run, Reason: "made up"}}
		}
	}
}

// witness checks the guarantees that must hold when an attempt begins.
type witness struct {
	mem *memstore.Store

	// late permits an attempt to begin after another worker has claimed the run and completed the
	// step. The faults end sessions whose leases have not expired, and the engine detects that only
	// with the next answer.
	late bool

	mu    sync.Mutex
	begun map[string]int // number of begun attempts, by run, key and attempt number
	wrong []string
}

func newWitness(mem *memstore.Store) *witness { return &witness{mem: mem, begun: map[string]int{}} }

func (w *witness) complain(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
}

// begin is called when an attempt begins. It returns how often the step has begun.
func (w *witness) begin(run event.RunID, key string, attempt int) (steps int) {
	w.mu.Lock()
	this := fmt.Sprintf("%s %s %d", run, key, attempt)
	w.begun[this]++
	if w.begun[this] > 1 {
		w.wrong = append(w.wrong, "began twice: "+this)
	}
	for n := range 100 {
		steps += w.begun[fmt.Sprintf("%s %s %d", run, key, n)]
	}
	w.mu.Unlock()
	events, err := logOf(w.mem, run)
	if err != nil {
		return steps // the store was closed
	}
	var ref uint64
	started := 0
	for _, e := range events {
		switch {
		case e.Type == event.StepCreated && e.Key == key:
			ref = e.Seq
		case ref == 0 || e.Ref != ref:
		case e.Type == event.StepStarted && e.Attempt == attempt:
			started++
		case e.Type == event.StepStarted && e.Attempt > attempt && w.late:
			return steps
		case e.Type == event.StepCompleted:
			w.complain("began although it is completed: %s", this)
		}
	}
	if started != 1 {
		w.complain("began with %d records of that: %s", started, this)
	}
	return steps
}

// logOf returns the log of a run from the store.
func logOf(st store.Store, run event.RunID) ([]event.Event, error) {
	loaded, err := st.Load(context.Background(), []store.Load{{Run: run}})
	if err == nil {
		err = loaded[0].Err
	}
	if err != nil {
		return nil, err
	}
	var all []event.Event
	for _, b := range loaded[0].Frames {
		f, err := event.DecodeFrame(b)
		if err != nil {
			return nil, err
		}
		all = append(all, f.Events...)
	}
	return all, nil
}
