package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

// An invocation executes one run with the parts of a worker. It differs from a worker as follows:
//   - It claims its run by name, so it never claims by routes, neither itself nor with a commit.
//   - It has one session, in the partition of the run. The session sends no heartbeats: its lease
//     covers the whole invocation, and a process that is killed or frozen loses its run when the lease
//     has expired.
//   - It accepts no local starts, because the started runs could outlast the invocation.
//   - It purges nothing, declares nothing, and delivers only the outbox records of its own commits.
//
// It is fenced in the same way as a worker, because the same code begins attempts and commits. Each
// commit has the fence of the claim. An attempt begins only after its step_started is durable under
// that fence, and its code is called only while the lease is alive; see [lease.Lease.AwaitAlive]. A
// frozen process that continues after its lease has expired therefore calls no code of a step, whether
// or not another session has claimed the run. If another one has, its commits are refused and the run
// is dropped. If none has, they are accepted, because then nothing else has executed the run. The
// session is never renewed, so an invocation cannot own its run again after it has lost it.

// invoker implements [flow.Invoker].
type invoker struct{ *Worker }

func (i invoker) Prepare() (flow.Prepared, error) {
	w := i.Worker
	if err := w.prepare(); err != nil {
		return flow.Prepared{}, err
	}
	p := flow.Prepared{Routes: w.served.routes(), Build: w.build}
	for _, s := range w.code.StepSpecs() {
		if event.Reserved(s.Name) {
			continue // its timeout may be cut to the budget, because its attempts are repeated
		}
		if s.Queue == "" || w.served.claims(store.Route{Queue: s.Queue, Workflow: event.StepRun(s.Name)}) {
			p.Steps = append(p.Steps, s)
		}
	}
	return p, nil
}

func (i invoker) Fingerprint() string { return i.fingerprint() }

func (i invoker) Invoke(ctx context.Context, call flow.Invocation, stop <-chan struct{}) (flow.Invoked, error) {
	w := i.Worker
	before, cancel := untilStop(ctx, stop)
	defer cancel()
	loaded, err := w.look(before, call.Run)
	if err != nil {
		return flow.Invoked{}, stopped(before, err)
	}
	suspect := loaded.Record.Recoveries >= w.quarantineAfter()
	leave, err := call.Enter(suspect)
	if err != nil {
		return flow.Invoked{}, err
	}
	defer leave()
	got, err := w.forOne(call).execute(ctx, before, call, loaded, suspect, stop)
	return got, stopped(before, err)
}

// errStops is the cause of the end of a context of [untilStop].
var errStops = &flow.BusyError{Message: "the process is stopping", Fix: "call again: another process answers"}

// untilStop returns a context that ends when stop is closed. The requests before a claim use it, so
// that a slow store does not delay the end of the process.
func untilStop(ctx context.Context, stop <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-stop:
			cancel(errStops)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// stopped returns the error of a request that may have failed because the process is stopping.
func stopped(before context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(before), errStops) {
		return errStops
	}
	return err
}

// look reads a run and checks that it may be invoked. It changes nothing.
func (w *Worker) look(ctx context.Context, run event.RunID) (*store.Loaded, error) {
	got, err := w.store.Load(ctx, []store.Load{{Run: run, Inbox: true}})
	if err == nil {
		err = got[0].Err
	}
	if err != nil {
		return nil, fmt.Errorf("read run %s: %w", run, err)
	}
	l := &got[0]
	r := &l.Record
	switch {
	case r.QueueState == store.StateEnded:
		return nil, &store.TerminalError{Run: run, Status: r.Status}
	case !w.served.claims(r.Route) && !w.accepts(ctx, r):
		return nil, &flow.RouteError{Route: r.Route}
	case r.QueueState == store.StateOwned:
		return nil, fmt.Errorf("claim run %s: %w", run, store.ErrOwned)
	case r.QueueState == store.StateQueued, r.QueueState == store.StateParked && (r.Due.IsZero() || r.Due.After(w.clock.Now())):
		return nil, &flow.NotReadyError{State: r.QueueState, Due: r.Due}
	}
	return l, nil
}

// accepts reports whether an invocation may execute a run that is pinned to another build: the code of
// that build has blocked the run, or a session of this build announces its route. The dispatch that has
// opened the session has decided this by the rule of workers; see [mover.leaves].
func (w *Worker) accepts(ctx context.Context, r *store.Record) bool {
	if w.build == "" || !isPinned(r.Route) || !w.served.executes(r.Route) {
		return false
	}
	if r.QueueState == store.StateBlocked {
		return true
	}
	v, err := w.loop.client.Pins().Read(ctx)
	return err == nil && slices.Contains(v.Serving(r.Route), w.build)
}

// forOne returns a worker for one invocation, with the code of w.
func (w *Worker) forOne(call flow.Invocation) *Worker {
	cfg := w.cfg
	cfg.Runs, cfg.RunBudget, cfg.ClaimExpiry = 1, call.Budget, call.Lease
	cfg.Heartbeat, cfg.Grace = call.Lease/2, abandonAfter
	v := New(w.client, cfg)
	v.code, v.fit, v.build, v.served.code = w.code, w.fit, w.build, w.served.code
	v.served.claimed.Store(w.served.claimed.Load())
	v.cfg.Heartbeat = 2 * call.Lease // none is sent
	return v
}

const (
	// abandonAfter is how long after its timeout an attempt may take to return before it is abandoned.
	abandonAfter = time.Second
	// unreadAfter is how long an invocation lasts before it begins to wait for new items of its run.
	// Most invocations end earlier. Before a run leaves, it reads its items in any case.
	unreadAfter = 500 * time.Millisecond
)

// execute executes the run of an invocation. before is a context of [untilStop].
func (w *Worker) execute(ctx, before context.Context, call flow.Invocation, loaded *store.Loaded, suspect bool, stop <-chan struct{}) (flow.Invoked, error) {
	began, p := time.Now(), w.partitionOf(call.Run)
	defer w.setParams()()
	w.loop.params.Within = call.Budget
	left := &invoked{}
	w.loop.invoked = left
	w.partition(func(served int) bool { return served == p })
	l := w.leases[p]
	if err := l.Open(before); err != nil {
		return flow.Invoked{}, fmt.Errorf("open session: %w", err)
	}
	w.loop.unbounded.look(before, p)
	claimed, err := w.claimOne(ctx, before, l, call.Run, suspect)
	if err != nil {
		return flow.Invoked{}, err
	}
	if r := &loaded.Record; claimed.N == r.N && claimed.Last == r.Last && !claimed.Unread && len(loaded.Inbox) == 0 {
		claimed.Loaded = loaded
	}
	w.startParts()
	defer w.loop.observers.start(w.gauges)()
	w.claimer.adopt(l, l.Current(), claimed)
	// An attempt that was launched late has the time of its timeout, and is abandoned if it ignores it.
	grace := stopGrace
	if !w.await(call, stop) {
		grace = min(left.late(began), runloop.LateMost) + runloop.Slack(call.Budget) + 2*abandonAfter
	}
	w.end(grace, stop)
	return left.result(), nil
}

// claimOne claims the run of an invocation. The session is closed if that fails. A claim that was sent
// when the process begins to stop is awaited for a while, because it may have an effect.
func (w *Worker) claimOne(ctx, before context.Context, l *lease.Lease, run event.RunID, suspect bool) (store.ClaimedRun, error) {
	claiming, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(before, func() { w.clock.AfterFunc(stopGrace, cancel) })()
	claimed, err := w.store.ClaimRun(claiming, l.Partition, l.Current(), event.NewToken(), run)
	if err == nil && claimed.Recoveries >= w.quarantineAfter() && !suspect { // another process has died since the run was read
		err = &flow.BusyError{Message: "the run has ended another process meanwhile, and must be executed alone", Fix: "call again"}
		_ = w.store.Release(claiming, run, claimed.Fence) // otherwise closing the session recovers the run
	}
	if err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
		defer cancel()
		_ = l.Close(closing) // otherwise its lease expires
	}
	return claimed, err
}

const (
	// stopGrace is how long an invocation waits for an attempt, or for a claim, when the process stops.
	stopGrace = 2 * time.Second
	// stopMost is how long an invocation lasts after the process has begun to stop. Platforms end a
	// process 10 s after SIGTERM.
	stopMost = 7 * time.Second
)

// end ends an invocation. If the process stops and the store does not answer in time, the run is left
// to the lease.
func (w *Worker) end(grace time.Duration, stop <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.stop(grace)
	}()
	select {
	case <-ended:
		return
	case <-stop:
	}
	over := make(chan struct{})
	defer w.clock.AfterFunc(stopMost, func() { close(over) })()
	select {
	case <-ended:
	case <-over:
		w.hard.Store(true)
		w.cutOff()
	}
}

// await waits until the run has left, until the budget is exhausted, or until stop is closed. It
// reports whether stop was closed.
func (w *Worker) await(call flow.Invocation, stop <-chan struct{}) (stopped bool) {
	over := make(chan struct{})
	cancel := w.clock.AfterFunc(call.Budget, func() { close(over) })
	defer cancel()
	ctx, end := context.WithCancel(w.io)
	var listening sync.WaitGroup
	defer listening.Wait()
	defer end()
	listening.Go(func() { w.listen(ctx, call.Run) })
	for w.runs.Knows(call.Run) {
		select {
		case <-w.runs.freed:
		case <-over:
			return false
		case <-stop:
			return true
		}
	}
	return false
}

// listen passes on new items of the run, so that a cancel or a message reaches it while its steps are
// running.
func (w *Worker) listen(ctx context.Context, run event.RunID) {
	p := w.partitionOf(run)
	for pause := unreadAfter; wait.For(ctx, w.clock, pause); pause = 0 {
		woken, err := w.store.Wait(ctx, store.Wait{
			Sessions: []store.WaitSession{{Partition: p, Session: w.leases[p].Current()}}, Until: w.clock.Now().Add(w.waitMost),
		})
		for _, run := range woken.Unread {
			w.runs.OnUnread(run)
		}
		if err != nil {
			wait.For(ctx, w.clock, time.Second)
		}
	}
}

// invoked records how an invocation has begun and left its run.
type invoked struct {
	mu    sync.Mutex
	first time.Time // when the first attempt was launched; zero: none was
	got   flow.Invoked
}

func (i *invoked) launch() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.first.IsZero() {
		i.first = time.Now()
	}
}

// accept records a commit that the store has accepted.
func (i *invoked) accept(c *runloop.Commit) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.got = flow.Invoked{Effect: c.Req.Effect, Due: c.Req.Due, Why: c.Why}
}

// late returns how long after the begin of the invocation its first attempt has begun.
func (i *invoked) late(began time.Time) time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.first.IsZero() {
		return 0
	}
	return i.first.Sub(began)
}

func (i *invoked) result() flow.Invoked {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.got
}
