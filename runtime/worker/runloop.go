package worker

import (
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
)

// loopParts are the parts of the worker that a run loop uses, besides its environment.
type loopParts struct {
	client    flow.Client
	code      *flow.Registry
	runs      *runs
	leases    lease.Set
	unbounded *unbounded
	committer *committer
	loader    *loader
	steps     *steps
	ready     *queue[runnable]
	// outbox notifies the relay of a partition about new outbox records of sender. all reports
	// whether sent contains every new record.
	outbox func(partition int, sender event.RunID, sent []store.Outgoing, all bool)
}

// runLoop executes one run on this worker. Other goroutines post inputs to the loop, and an
// executor handles them. All fields except inputs belong to the executor that handles the loop.
//
// A run loop has one of five states. New: no claim was handled. Loading: the run was claimed and
// its log is being read. Live: the code is in memory and matches the log, or the run is about to be
// created with the events of its code. Waiting: the run is quarantined and waits for its turn.
// Away: the run was given back; its code may be kept in memory for the next claim.
type runLoop struct {
	inputs
	execution
	*loopParts

	state     loopState
	heldClaim // claim under which the worker owns the run
	logEnd    // end of the durable log of the run
	inbox     inbox
	stepping  stepping
	draft     draft
	reporter  reporter
	suspicion suspicion
	alarm     alarm

	left     time.Time   // when the commit that gave the run back was built
	start    *localStart // the local start that creates the run; nil if the run exists
	inflight *commit
	next     *claimed        // a claim that arrived while a commit was in flight
	ended    *localstart.End // the end of the run; set when the run leaves the worker
}

type loopState uint8

const (
	stateNew loopState = iota
	stateLoading
	stateWaiting
	stateLive
	stateAway
)

func newRunLoop(e *env, p *loopParts, run event.RunID) *runLoop {
	t := &runLoop{loopParts: p}
	t.id, t.inputs.activity, t.inputs.ready = run, e.activity, t
	t.execution = execution{env: e, in: &t.inputs}
	t.alarm = alarm{env: e, in: &t.inputs}
	t.reporter = reporter{execution: &t.execution, heldClaim: &t.heldClaim}
	t.inbox = inbox{execution: &t.execution}
	t.stepping = stepping{
		execution: &t.execution, heldClaim: &t.heldClaim, code: p.code, runs: p.runs, steps: p.steps, reporter: &t.reporter,
	}
	t.inbox.steps = &t.stepping
	t.draft = draft{execution: &t.execution, heldClaim: &t.heldClaim, logEnd: &t.logEnd, inbox: &t.inbox, stepping: &t.stepping}
	t.suspicion = suspicion{execution: &t.execution, heldClaim: &t.heldClaim, runs: p.runs}
	return t
}

func (t *runLoop) schedule()      { t.loopParts.ready.push(t) }
func (t *runLoop) shown() *inputs { return &t.inputs }

// leaving reports whether a commit that gives the run back is in flight. During this time the loop
// begins nothing, because another worker may own the run.
func (t *runLoop) leaving() bool {
	return t.inflight != nil && t.inflight.req.Effect != store.EffectNone
}

// block stops the work on a run whose log does not match this worker's code or is damaged. When the
// running steps have ended, the run is given back as blocked, and the store records that this
// session could not replay it. The store then offers the run to live sessions with other code at
// once. It offers the run to a session with the same code only after this session has ended. So a
// run that no code matches, such as one with a damaged log, is read and reported once per build and
// incarnation of a worker. block does nothing if err is nil.
func (t *runLoop) block(err error) {
	if err == nil || t.blocked != nil {
		return
	}
	if mismatch, ok := errors.AsType[*replay.MismatchError](err); ok {
		mismatch.Here = t.build
	}
	t.blocked = err
	t.stepping.interrupted = nil
	if len(t.stepping.attempts) > 0 { // the outcomes of these attempts may end the run
		t.log.Warn("run cannot continue on this worker: it will be blocked when its steps have ended", "run", t.id, "workflow", t.route.Workflow, "error", err)
	}
}

// forget drops the run's state in memory. All effects that were visible outside are in the log.
func (t *runLoop) forget() {
	if t.start != nil {
		t.start.Decline()
		t.start = nil
	}
	t.stepping.drop(errLost)
	t.close()
	t.alarm.clear()
	t.inbox.forget()
	t.stepping.forget()
	t.draft.forget()
	t.reporter.waiting, t.size = nil, logSize{}
}

// lose drops the run, because another worker owns it or because its state in memory is wrong. If
// give is not nil, the run is given back under that fence.
func (t *runLoop) lose(give *store.Fence) {
	if t.state == stateAway {
		return
	}
	t.forget()
	t.inflight = nil
	if give != nil {
		t.runs.release(t.id, *give)
	}
	t.leave(false)
}

// leave ends the ownership of the run. If keep is true and there is space, the run stays in memory
// until its next claim.
func (t *runLoop) leave(keep bool) {
	t.state = stateAway
	t.alarm.clear()
	if t.run != nil {
		t.run.Reuse(nil)
	}
	branches := 0
	if keep {
		branches = 1
		if t.run != nil {
			branches = max(t.run.Branches(), 1)
		}
	}
	if !t.runs.disown(&t.inputs, branches, t.next != nil) {
		t.forget()
	}
	end := t.ended
	t.ended = nil
	t.notifyFollowers(end)
}

// read requests the log and the inbox of a claimed run. If got is not nil, it contains both, and no
// request is made.
func (t *runLoop) read(got *store.Loaded) {
	t.state = stateLoading
	if got != nil {
		t.loaded(&load{by: &t.inputs, run: t.id, fence: t.fence, got: *got})
		return
	}
	t.loader.load(&load{by: &t.inputs, run: t.id, fence: t.fence, partition: t.partition, bytes: t.bytes})
}

// send sends a commit of the run.
func (t *runLoop) send(c *commit) {
	t.inflight = c
	t.claimNext(c)
	t.committer.commit(c)
}

// alarm posts a tick to a run loop when an operation of the run becomes due.
type alarm struct {
	*env
	in   *inputs // inputs of the run loop
	at   time.Time
	stop func() bool
}

// overdue is the interval at which a run loop retries due work that it could not do.
const overdue = 20 * time.Millisecond

// recheck bounds how long a run loop relies on an alarm. The clock may be set or the machine may
// sleep, so the loop checks the time again after this interval.
const recheck = time.Minute

// set schedules a tick at due. A zero due cancels the tick. The run loop has handled everything
// that was due at looked.
func (a *alarm) set(due, looked time.Time) {
	if due.Equal(a.at) {
		return
	}
	a.clear()
	if due.IsZero() {
		return
	}
	// Due work that the loop could not do waits, for example for a slot. It is retried after
	// overdue.
	wait := min(max(due.Sub(a.clock.Now()), overdue), a.recheck)
	a.at = due
	a.stop = a.clock.AfterFunc(wait, func() { a.in.post(input{kind: inputTick}) })
	if looked.Before(due) && !a.clock.Now().Before(due) {
		a.in.post(input{kind: inputTick}) // the time due has passed since looked
	}
}

func (a *alarm) clear() {
	if a.stop != nil {
		a.stop()
		a.stop = nil
	}
	a.at = time.Time{}
}
