package worker

import (
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
)

// loopParts are the parts of the worker that a run loop uses, besides its environment.
type loopParts struct {
	client    engine.Client
	code      engine.Registry
	runs      *runs
	leases    lease.Set
	unbounded *unbounded
	committer *committer
	loader    *loader
	steps     *steps
	ready     *queue[runnable]
	// outbox notifies the relay of a partition about new outbox records of sender.
	outbox func(partition int, sender event.RunID, sent []store.Outgoing, all bool)
}

// runLoop is the work on one run on this worker. It is driven by inputs: other goroutines post
// them, and an executor handles them. Everything but the inputs belongs to the executor that has
// the run loop.
//
// A run loop is new; loading: the run was claimed and its log is being read; live: its code is in
// memory and matches its log, or the run must still be created with the events of its code;
// waiting: a quarantined run that must wait for another one; or away: given back, with its code
// perhaps kept in memory for the next claim.
type runLoop struct {
	inputs
	execution
	*loopParts

	state     loopState
	heldClaim // claim of the run
	logEnd    // end of the log of the run
	inbox     inbox
	stepping  stepping
	draft     draft
	reporter  reporter
	suspicion suspicion
	alarm     alarm

	left     time.Time   // when the commit that gave the run back was made
	start    *localStart // how the run will be created; nil if it exists
	inflight *commit
	next     *claimed        // a claim that arrived while a commit was in flight
	ended    *localstart.End // the end of the run, set as the run leaves
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

// leaving reports whether a commit that gives the run back is in flight. Meanwhile nothing is
// begun, because another worker may own the run already.
func (t *runLoop) leaving() bool {
	return t.inflight != nil && t.inflight.req.Effect != store.EffectNone
}

// block stops the work on a run that this worker's code does not match, or whose log is damaged.
// The run is given back as blocked once its running steps have ended. The store records that this
// session could not replay it. It gives the run to sessions with other code, at once if they are
// alive, and to a session with the same code only when this session is over. So a run that no code
// matches, such as one with a damaged log, is read and reported once per build and incarnation of a
// worker. A nil error does nothing.
func (t *runLoop) block(err error) {
	if err == nil || t.blocked != nil {
		return
	}
	if mismatch, ok := errors.AsType[*replay.MismatchError](err); ok {
		mismatch.Here = t.build
	}
	t.blocked = err
	t.stepping.interrupted = nil
	if len(t.stepping.attempts) > 0 { // their outcome may end the run
		t.log.Warn("run cannot go on here: it will be blocked when its steps have ended", "run", t.id, "workflow", t.route.Workflow, "error", err)
	}
}

// forget drops the run's state in memory. Everything of it that was visible outside is in the log.
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

// lose drops the run, because another worker owns it now or because its state in memory is wrong.
// If give is not nil, the run is given back under that fence.
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

// leave ends the ownership. A run whose memory is kept is parked until its next claim.
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

// read requests the log and the inbox of a claimed run, unless got contains them already.
func (t *runLoop) read(got *store.Loaded) {
	t.state = stateLoading
	if got != nil {
		t.loaded(&load{by: &t.inputs, run: t.id, fence: t.fence, got: *got})
		return
	}
	t.loader.load(&load{by: &t.inputs, run: t.id, fence: t.fence, partition: t.partition, bytes: t.bytes})
}

// send sends the commit of the run.
func (t *runLoop) send(c *commit) {
	t.inflight = c
	t.claimNext(c)
	t.committer.commit(c)
}

// alarm wakes a run loop when something in the run becomes due.
type alarm struct {
	*env
	in   *inputs // of the run loop
	at   time.Time
	stop func() bool
}

// overdue is how often a run loop retries due work that it could not do.
const overdue = 20 * time.Millisecond

// recheck bounds how long a run loop relies on an alarm before it rechecks, because the clock may
// be set or the machine may sleep.
const recheck = time.Minute

// set schedules a wake of the run loop at due, while other work keeps the loop busy. The zero time
// cancels the wake. The run loop last checked for due work at looked.
func (a *alarm) set(due, looked time.Time) {
	if due.Equal(a.at) {
		return
	}
	a.clear()
	if due.IsZero() {
		return
	}
	// Work that is already due waits for something else, such as a slot.
	wait := min(max(due.Sub(a.clock.Now()), overdue), a.recheck)
	a.at = due
	a.stop = a.clock.AfterFunc(wait, func() { a.in.post(input{kind: inputTick}) })
	if looked.Before(due) && !a.clock.Now().Before(due) {
		a.in.post(input{kind: inputTick}) // it has become due since the check at looked
	}
}

func (a *alarm) clear() {
	if a.stop != nil {
		a.stop()
		a.stop = nil
	}
	a.at = time.Time{}
}
