package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// outage is a fleet with two workers and several clients. The clients start runs and send messages
// while a fault is injected into the server. After an error, a client repeats its request with the
// same workflow ID or idempotency key.
type outage struct {
	*fleet
	url      string
	cfg      worker.Config
	log      *recorder
	mu       sync.Mutex
	executed map[string]int        // number of executed steps by order
	written  map[string][]string   // acknowledged chunks by order
	harmed   chan struct{}         // closed after the fault
	talk     *workflow.Run[string] // run whose steps write to a stream during the fault; nil if unused
	runs     []*workflow.Run[string]
	asked    []*workflow.Run[string]
	errs     []string // errors returned to clients
	lost     int      // number of runs that the server has lost
	begun    atomic.Int64
}

// recorder is the output of a logger, which tests can search.
type recorder struct {
	mu    sync.Mutex
	lines strings.Builder
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.Write(b)
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lines.String()
}

// newOutage starts the fleet. A worker sends a heartbeat every 200 ms, so it soon detects that the
// server has lost its session. The leases are longer than every outage in these tests.
func newOutage(t *testing.T, url string) *outage {
	t.Helper()
	url = with(url, "read_timeout=2s&dial_timeout=1s")
	o := &outage{fleet: newFleet(t, openURL(t, url)), url: url, log: &recorder{}, harmed: make(chan struct{}),
		executed: map[string]int{}, written: map[string][]string{}}
	o.cfg = worker.Config{Heartbeat: 200 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(o.log, nil))}
	for _, batches := range []bool{true, false} {
		o.worker(batches)
	}
	// Both workers start before the fault, because a worker does not start if its first request
	// fails. The request is repeated because a new server may not be able to confirm writes yet.
	begun := insist(o, func() (*workflow.Run[string], error) { return startOnce(o, Fulfil, "warm", "warm") })
	o.awaitResult(begun, "warm shipped")
	eventually(t, "both workers have sessions", func() bool {
		snap, err := o.store.Inspect(o.ctx)
		return err == nil && len(snap.Leases) == 2*o.store.Partitions()
	})
	return o
}

// worker starts a worker that has its own connections. If batches is set, it also executes single
// creations and commits by script batch.
func (o *outage) worker(batches bool) {
	own := openURL(o.t, o.url)
	if batches {
		own.BatchEverything()
	}
	o.t.Cleanup(func() { _ = own.Close() })
	o.work(own, o.cfg, o.step)
}

func (o *outage) step(ctx context.Context, order string) (string, error) {
	o.mu.Lock()
	o.executed[order]++
	execution := o.executed[order]
	o.mu.Unlock()
	for n := 0; o.writes(order, n); n++ {
		chunk := fmt.Sprintf("execution %d, chunk %06d", execution, n)
		if err := step.Write(ctx, Progress, chunk); err != nil {
			return "", err
		}
		o.mu.Lock()
		o.written[order] = append(o.written[order], chunk)
		o.mu.Unlock()
	}
	return "done", nil
}

// talker is the ID and the order of a run whose steps write chunks during the whole fault.
const talker = "talker"

// writes reports whether a step should write chunk n. For the talker it waits 2 ms before each
// chunk.
func (o *outage) writes(order string, n int) bool {
	switch {
	case strings.HasPrefix(order, "order-"):
		return n < 3
	case order != talker:
		return false
	}
	select {
	case <-o.harmed:
		return n < 3
	case <-time.After(2 * time.Millisecond):
		return true
	}
}

// told returns the number of executed steps of an order, and its acknowledged chunks.
func (o *outage) told(order string) (executed int, chunks []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.executed[order], slices.Clone(o.written[order])
}

// Progress is the stream that the steps write to.
var Progress = workflow.NewStream[string]("progress")

// followed checks that the stream of a run has no gap and no duplicate, and that the chunks of each
// execution are in order. It returns the number of acknowledged chunks that are missing.
func (o *outage) followed(run *workflow.Run[string], order string, acknowledged []string) (lost int) {
	var chunks []workflow.Chunk[string]
	insist(o, func() (struct{}, error) {
		chunks = nil
		for c, err := range Progress.Read(o.ctx, run) {
			if err != nil {
				return struct{}{}, err
			}
			chunks = append(chunks, c)
		}
		return struct{}{}, nil
	})
	at, last := map[string]int{}, map[string]string{}
	for i, c := range chunks {
		execution, _, _ := strings.Cut(c.Value, ",")
		if c.Index != uint64(i+1) || at[c.Value] != 0 || c.Value < last[execution] {
			o.t.Errorf("stream of %s: chunk %d is number %d, %q, behind %q", order, c.Index, i+1, c.Value, last[execution])
		}
		at[c.Value], last[execution] = i+1, c.Value
	}
	for _, chunk := range acknowledged {
		if at[chunk] == 0 {
			lost++
		}
	}
	return lost
}

// begin starts a run with three steps and a run that waits for two messages.
func (o *outage) begin() {
	n := len(o.runs)
	order := fmt.Sprintf("order-%d", n)
	o.runs = append(o.runs, insist(o, func() (*workflow.Run[string], error) {
		return startOnce(o, Fulfil, order, order)
	}))
	o.asked = append(o.asked, insist(o, func() (*workflow.Run[string], error) {
		return startOnce(o, Ask, workflow.None{}, fmt.Sprintf("ask-%d", n))
	}))
	o.begun.Add(1)
}

// busy waits until clients have started at least five more pairs of runs.
func (o *outage) busy() {
	until := o.begun.Load() + 5
	eventually(o.t, "clients are answered", func() bool { return o.begun.Load() >= until || o.ctx.Err() != nil })
}

// startOnce starts a run with the given workflow ID, or returns the existing run of this ID.
func startOnce[In any](o *outage, d workflow.Definition[In, string], in In, id string) (*workflow.Run[string], error) {
	run, err := d.Start(o.ctx, o.client, in, workflow.WithID(id), workflow.WithIDPolicy(workflow.IDPolicy{Finished: workflow.RejectFinished}))
	if finished, ok := errors.AsType[*workflow.FinishedRunError](err); ok {
		return d.Get(o.client, finished.Run), nil
	}
	return run, err
}

// answer sends a message to every run that waits for messages.
func (o *outage) answer(which string) {
	for _, run := range o.asked {
		insist(o, func() (struct{}, error) {
			return struct{}{}, Answers.Send(o.ctx, run, which, workflow.IdempotencyKey(which))
		})
	}
}

// insist repeats a request of a client until it succeeds.
func insist[T any](o *outage, do func() (T, error)) T {
	for {
		v, err := do()
		if err == nil {
			return v
		}
		o.mu.Lock()
		o.errs = append(o.errs, err.Error())
		o.mu.Unlock()
		select {
		case <-time.After(20 * time.Millisecond):
		case <-o.ctx.Done():
			o.t.Errorf("a client gets no further: %v", err)
			return v
		}
	}
}

// through makes clients send requests before, during and after the fault harm.
func (o *outage) through(harm func()) {
	for range 10 {
		o.begin()
	}
	o.answer("yes")
	o.talk = insist(o, func() (*workflow.Run[string], error) { return startOnce(o, Fulfil, talker, talker) })
	eventually(o.t, "a step writes", func() bool { _, chunks := o.told(talker); return len(chunks) > 0 })
	go func() {
		defer close(o.harmed)
		harm()
	}()
	for busy := true; busy; {
		o.begin()
		select {
		case <-o.harmed:
			busy = false
		case <-time.After(5 * time.Millisecond):
		}
	}
	for range 5 {
		o.begin()
	}
}

// repeat starts all runs a second time. Clients must do so if the server may have lost acknowledged
// writes.
func (o *outage) repeat() {
	before := o.runs
	o.runs, o.asked = nil, nil
	for n := range before {
		o.begin()
		if o.runs[n].ID() != before[n].ID() {
			o.lost++
		}
	}
	if o.talk != nil {
		o.talk = insist(o, func() (*workflow.Run[string], error) { return startOnce(o, Fulfil, talker, talker) })
	}
}

// awaitResult waits for the result of a run. It repeats the call after each error, as users do.
func (o *outage) awaitResult(run *workflow.Run[string], want string) {
	if got := insist(o, func() (string, error) { return run.Result(o.ctx) }); got != want {
		o.t.Errorf("result of run %s: got %q, want %q", run.ID(), got, want)
	}
}

// done sends the messages, waits for all results and checks the store. If the server has lost
// nothing, it checks that no step was executed twice. Otherwise it repeats all requests first.
func (o *outage) done(lossless bool) {
	o.t.Helper()
	if !lossless {
		o.repeat()
	}
	o.answer("yes")
	o.answer("no")
	for n, run := range o.runs {
		o.awaitResult(run, fmt.Sprintf("order-%d shipped", n))
		o.awaitResult(o.asked[n], "yes no")
	}
	repeated := 0
	for n := range o.runs {
		got, _ := o.told(fmt.Sprintf("order-%d", n))
		repeated += got - 3
		if got < 3 || lossless && got > 3 {
			o.t.Errorf("steps of order-%d: executed %d times, want 3", n, got)
		}
	}
	o.t.Logf("%d runs, %d of three steps lost, %d steps executed again, %d errors of clients", 2*len(o.runs), o.lost, repeated, len(o.errs))
	o.streams(lossless)
	sound(o.t, o.store)
}

// streams checks the chunks that the steps have written.
func (o *outage) streams(lossless bool) {
	o.t.Helper()
	runs := map[string]*workflow.Run[string]{}
	for n, run := range o.runs {
		runs[fmt.Sprintf("order-%d", n)] = run
	}
	if o.talk != nil {
		o.awaitResult(o.talk, talker+" shipped")
		runs[talker] = o.talk
	}
	lost, written := 0, 0
	for order, run := range runs {
		_, chunks := o.told(order)
		gone := o.followed(run, order, chunks)
		lost, written = lost+gone, written+len(chunks)
		if lossless && gone > 0 {
			o.t.Errorf("stream of %s: %d of %d chunks that were acknowledged are not there", order, gone, len(chunks))
		}
	}
	o.t.Logf("%d of %d chunks lost", lost, written)
}

// met waits until a worker or a client has received one of the given errors, which proves that the
// outage occurred.
func (o *outage) met(texts ...string) {
	eventually(o.t, fmt.Sprintf("somebody meets %q", texts), func() bool { return o.has(texts...) })
}

// has reports whether a worker or a client has received one of the given errors.
func (o *outage) has(texts ...string) bool {
	o.mu.Lock()
	all := strings.Join(o.errs, "\n") + o.log.text()
	o.mu.Unlock()
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(all, text) })
}

// set changes a setting of a server.
func set(t testing.TB, server *redistest.Server, name, value string) {
	t.Helper()
	if err := server.Client(t).ConfigSet(context.Background(), name, value).Err(); err != nil {
		t.Error(err)
	}
}
