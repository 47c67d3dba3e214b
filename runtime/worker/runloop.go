package worker

import (
	"errors"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/handover"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
)

// loopParts are the parts that a run loop uses, beside its environment.
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
	// outbox tells that there is something new in the outbox of a partition.
	outbox func(partition int, sender event.RunID, sent []store.Outgoing, all bool)
}

// runLoop is the work on a run on this worker. It is driven by inputs: others post them, an
// executor handles them. All but the inputs belongs to the executor
// that has it.
//
// It is new, loading (it was claimed, its log is being read), live (its code
// is in memory and matches its log, or its run must be created with what the code has
// done), waiting (a quarantined run that must wait for
// another one) or away: given back, with its code perhaps still in memory for
// the next claim.
type runLoop struct {
	inputs
	execution
	*loopParts

	state     loopState
	tenure    // of the run
	logEnd    // of the run
	inbox     inbox
	stepping  stepping
	draft     draft
	reporter  reporter
	suspicion suspicion
	alarm     alarm

	left     time.Time   // when the commit was made that gave it back
	start    *localStart // how the run will be created; nil: it exists
	inflight *commit
	next     *claimed      // a claim that came while a commit was in flight
	ended    *handover.End // how the run has ended, as it leaves
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
	t.reporter = reporter{execution: &t.execution, tenure: &t.tenure}
	t.inbox = inbox{execution: &t.execution}
	t.stepping = stepping{
		execution: &t.execution, tenure: &t.tenure, code: p.code, runs: p.runs, steps: p.steps, reporter: &t.reporter,
	}
	t.inbox.steps = &t.stepping
	t.draft = draft{execution: &t.execution, tenure: &t.tenure, logEnd: &t.logEnd, inbox: &t.inbox, stepping: &t.stepping}
	t.suspicion = suspicion{execution: &t.execution, tenure: &t.tenure, runs: p.runs}
	return t
}

func (t *runLoop) schedule()      { t.loopParts.ready.push(t) }
func (t *runLoop) shown() *inputs { return &t.inputs }

// leaving reports whether a commit that gives the run back is in flight. Nothing
// is begun meanwhile: the run may belong to somebody else already.
func (t *runLoop) leaving() bool {
	return t.inflight != nil && t.inflight.req.Effect != store.EffectNone
}

// block stops the work on a run that this worker's code does not fit, or whose log
// is damaged. It is given back as blocked once the steps that are under way have ended.
// The store records that this session could not replay it, and gives it to sessions with
// other code, at once if they live; to one with the same code only when this session is
// over. So a run that fits nobody, and a damaged log, which no code fits, are read and
// reported once per build and incarnation of a worker. Nil does nothing.
func (t *runLoop) block(err error) {
	if err == nil || t.blocked != nil {
		return
	}
	if mismatch, ok := errors.AsType[*replay.MismatchError](err); ok {
		mismatch.Here = t.build
	}
	t.blocked = err
	t.stepping.interrupted = nil
	if len(t.stepping.attempts) > 0 { // their end may be the run's
		t.log.Warn("run cannot go on here: it will be blocked when its steps have ended", "run", t.id, "workflow", t.route.Workflow, "error", err)
	}
}

// forget drops what is in memory of the run. Nothing of it was visible outside
// that is not in the log.
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

// lose drops the run because it belongs to somebody else now, or because what is
// known of it is wrong; then give says to give it back.
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

// leave ends the ownership. A run that keeps its memory waits for its next claim
// among the parked ones.
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
	t.tellFollowers(end)
}

// read asks for the log and the inbox of a run that was claimed, unless the claim has
// brought them.
func (t *runLoop) read(got *store.Loaded) {
	t.state = stateLoading
	if got != nil {
		t.loaded(&load{by: &t.inputs, run: t.id, fence: t.fence, got: *got})
		return
	}
	t.loader.load(&load{by: &t.inputs, run: t.id, fence: t.fence, partition: t.partition, bytes: t.bytes})
}

// send hands on the commit of the run.
func (t *runLoop) send(c *commit) {
	t.inflight = c
	t.claimNext(c)
	t.committer.commit(c)
}
