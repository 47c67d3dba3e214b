package worker

import (
	"context"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	at "github.com/flowgen/flowgen/runtime/internal/attempt"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/localstart"
	"github.com/flowgen/flowgen/runtime/internal/refs"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/observe"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/lease"
)

// loopParts are the parts of the worker that a run loop uses, besides its environment.
type loopParts struct {
	params    runloop.Params // complete when the worker runs
	client    flow.Engine
	runs      *runs
	observers *observers // nil if there are none
	leases    lease.Set
	unbounded *unbounded
	committer *committer
	loader    *loader
	steps     *steps
	ready     *queue[runnable]
	// outbox notifies the relay of a partition about new outbox records of sender. all reports
	// whether sent contains every new record.
	outbox  func(partition int, sender event.RunID, sent []store.Outgoing, all bool)
	invoked *invoked // nil except in an invocation
}

// runLoop executes one run on this worker. Other goroutines post inputs, and an executor passes them
// to the state of the run and performs the actions that the state returns. All fields except inputs
// belong to the executor that handles the loop.
type runLoop struct {
	inputs
	*env
	*loopParts
	state   runloop.State
	exec    *executor
	alarm   alarm
	started refs.Map[attempt]     // attempts that were started and have not ended, by ID
	labels  *attemptLabels        // labels of the last attempt
	seen    []observe.RunObserver // observers of the run; nil elements observe nothing
	start   *localstart.Start     // the local start that creates the run; nil if the run exists
	fresh   bool                  // whether the log contained only its first frame when the run was claimed
}

// newRunLoop returns the inputs of a new run loop. start is the local start that creates the run; it is
// nil if the run exists.
func newRunLoop(e *env, p *loopParts, run event.RunID, start *localstart.Start) *inputs {
	t := &runLoop{env: e, loopParts: p, start: start}
	t.id, t.inputs.activity, t.inputs.ready, t.inputs.loop = run, e.activity, p.ready, t
	t.posted = t.first[:0]
	t.state = runloop.New(&p.params, run, t.onStray)
	t.alarm = alarm{env: e, in: &t.inputs}
	return &t.inputs
}

func (t *runLoop) shown() *inputs { return &t.inputs }

// execute handles posted inputs until none are left.
func (t *runLoop) execute(e *executor) {
	t.exec = e
	var in []runloop.Input
	for {
		in = t.take(in, t.state.Away())
		if len(in) == 0 {
			return
		}
		if t.killed.Load() { // the worker has stopped, so the inputs have no effect
			t.perform(t.state.React(t, runloop.Input{Kind: runloop.Drop}))
			continue
		}
		for i := range in {
			t.deliver(in[i])
		}
		t.perform(t.state.Proceed(t))
		t.steps.slots.offer()
	}
}

// deliver passes an input to the state of the run.
func (t *runLoop) deliver(in runloop.Input) {
	switch in.Kind {
	case runloop.Claimed:
		if !t.runs.own(&t.inputs) {
			in = runloop.Input{Kind: runloop.Evict} // another run loop owns the run under another claim, so this claim is over
			break
		}
		t.fresh = in.Claim.N == 1
		t.setName(in.Claim.Route.Workflow)
	case runloop.Ended:
		t.started.Delete(in.Attempt)
	case runloop.Answered:
		in.Seq = t.answered(in.Commit)
	}
	t.perform(t.state.React(t, in))
}

// answered handles the parts of an answer that do not depend on the state of the run. It returns a
// new claim number if the commit has created the run.
func (t *runLoop) answered(c *runloop.Commit) (claim uint64) {
	if c.Create {
		t.start = nil
		claim = t.runs.claimSeq.Add(1)
	}
	if c.Answer.Err != nil {
		return claim
	}
	t.measure(c)
	if t.invoked != nil {
		t.invoked.accept(c)
	}
	if c.Req.Frame != nil && t.unbegun.Load() != nil {
		t.unbegun.Store(nil)
	}
	if len(c.Req.Send) > 0 {
		t.outbox(t.partitionOf(t.id), t.id, c.Answer.Sent, len(c.Answer.Sent) == len(c.Req.Send))
	}
	return claim
}

func (t *runLoop) perform(actions []runloop.Action) {
	kept := true
	for i := range actions {
		switch a := &actions[i]; a.Op {
		case runloop.Read:
			t.loader.load(&load{Load: runloop.Load{Fence: a.Claim.Fence, Inbox: a.Inbox}, by: &t.inputs, run: t.id, after: a.After, portion: a.Portion, partition: a.Claim.Partition, bytes: a.Claim.Bytes})
		case runloop.Send:
			t.send(a.Commit, a.Claim)
		case runloop.Start:
			t.launch(a)
		case runloop.StopAttempt:
			if attempt := t.started.Get(a.Attempt); attempt != nil {
				attempt.stop(a.Err)
			}
		case runloop.Reveal:
			close(a.Opening.Done)
		case runloop.ReturnSlot:
			t.steps.slots.release()
		case runloop.Release:
			t.runs.release(t.id, a.Fence)
		case runloop.Leave:
			kept = t.runs.disown(&t.inputs, a.N, a.Claimed)
			t.notifyFollowers(a.End)
		case runloop.SetAside:
			t.runs.setAside(t.id, t.name(), a.Err)
		case runloop.LineUp:
			t.runs.lineUp(&t.inputs, a.Most)
		case runloop.BeginTurn:
			t.beginTurn(a.Turn, a.Most)
		case runloop.EndTurn:
			t.runs.finishTurn(a.Turn)
		case runloop.Wake:
			t.alarm.set(a.Due, a.Looked)
		case runloop.Decline:
			if t.start != nil {
				t.start.Decline()
				t.start = nil
			}
		case runloop.Log:
			t.log.Log(context.Background(), a.Line.Level, a.Line.Text, a.Line.Args...)
		case runloop.Observe:
			t.exec.enter()
			t.seen = t.observers.meet(t.seen, a.Seen)
			t.exec.leave()
		case runloop.Report:
			t.exec.enter()
			t.observers.report(t.seen, a.Events)
			t.exec.leave()
		}
	}
	if !kept {
		t.perform(t.state.React(t, runloop.Input{Kind: runloop.Evict}))
	}
}

func (t *runLoop) send(c *runloop.Commit, claim *runloop.Claim) {
	s := sending{Commit: c, by: &t.inputs}
	switch {
	case c.Create:
		s.start, s.session = t.start, claim.Session
		t.creating.Add(1) // before the routes are read, see mover.update
		if !t.served.claims(claim.Route) {
			t.start.Decline()
		}
	case c.GivesPermits:
		t.claimNext(&s, claim)
	}
	t.committer.commit(s)
}

func (t *runLoop) launch(a *runloop.Action) {
	b, claim := &a.Begin, a.Claim
	op, spec := b.Step, b.Run.State().Spec
	fn, _ := t.params.Code.Step(op.Name) // the state has checked that the step exists
	s := &attempt{
		id: a.Attempt, timeout: b.Timeout, deadline: b.Deadline, steps: t.steps, by: &t.inputs, run: t.id, fence: claim.Fence,
		lease: t.leases[claim.Partition], session: claim.Session, fn: fn, op: op, began: t.meter.Now(),
	}
	s.info = at.Attempt{Run: t.id, WorkflowID: spec.WorkflowID, Workflow: spec.Workflow, Step: op.Name, Key: op.Key, Number: b.Number, Ref: b.Ref, Tags: spec.Tags, Spec: spec, Log: t.id, LogKey: op.Key}
	if c := flow.PlanOf(op).Caller; c != nil {
		s.info.Run, s.info.WorkflowID, s.info.Workflow, s.info.Key, s.info.Tags = c.Run, c.WorkflowID, c.Workflow, c.Key, c.Tags
	}
	t.labels = labelsOf(t.labels, &s.info)
	s.labels, s.info.Heart, s.info.Streams, s.info.Logger, s.info.Client, s.info.Hooks = t.labels, s, s, t.log, t.steps.client, s
	if c := &t.steps.interceptors; len(c.steps) > 0 && !event.Reserved(op.Name) && !event.Internal(s.info.Workflow) {
		s.fn = c.aroundStep(fn)
	}
	t.started.Add(a.Attempt, s)
	if t.invoked != nil {
		t.invoked.launch()
	}
	t.steps.launch(s)
}

// beginTurn sets the timers of a turn. The second one ends the turn even if the code blocks the run
// loop.
func (t *runLoop) beginTurn(number int, most time.Duration) {
	t.clock.AfterFunc(most, func() { t.post(runloop.Input{Kind: runloop.TurnOver, Turn: number}) })
	t.clock.AfterFunc(most+runloop.TurnTime, func() { t.runs.finishTurn(number) })
}

// onStray handles a durable operation that user code has called on another goroutine. It wakes a
// waiting run, which would otherwise be blocked only at its next event.
func (t *runLoop) onStray(e *replay.StrayError) {
	t.log.Error("durable operation called on a goroutine of its own: the goroutine was ended", "run", t.id, "workflow", t.name(), "error", e)
	if !t.stopping.Load() {
		t.post(runloop.Input{Kind: runloop.Due})
	}
}

// The following methods implement [runloop.Driver].

func (t *runLoop) Moment(c *runloop.Claim) runloop.Moment {
	m := runloop.Moment{Now: t.clock.Now(), Closed: t.runs.closedTo(&t.inputs), Alive: c != nil && c.Lease.Alive(c.Session)}
	switch {
	case t.hard.Load():
		m.Stage = runloop.Hard
	case t.ending.Load():
		m.Stage = runloop.Ending
	case t.stopping.Load():
		m.Stage = runloop.Stopping
	}
	return m
}

func (t *runLoop) Leave(c *runloop.Claim) runloop.Moment {
	t.exec.leave()
	return t.Moment(c)
}

func (t *runLoop) Enter()                   { t.exec.enter() }
func (t *runLoop) Memory() *runloop.Memory  { return &t.exec.memory }
func (t *runLoop) TakeSlot() bool           { return t.steps.slots.acquire(&t.inputs) }
func (t *runLoop) Full() bool               { return t.runs.full() }
func (t *runLoop) Roomy() bool              { return t.runs.roomy(&t.inputs, t.partitionOf(t.id)) }
func (t *runLoop) CommitID() event.CommitID { return event.NewCommitID() }

func (t *runLoop) Turn() (number int, alone, begun bool) { return t.runs.turnOf(&t.inputs) }

func (t *runLoop) ClosedStreams(id uint64) []string {
	if a := t.started.Get(id); a != nil {
		return a.closedStreams()
	}
	return nil
}

// alarm posts Due to a run loop when an operation of the run becomes due.
type alarm struct {
	*env
	in   *inputs // inputs of the run loop
	stop func() bool
}

// overdue is the interval at which a run loop retries due work that it could not do.
const overdue = 20 * time.Millisecond

// recheck bounds how long a run loop relies on an alarm. The clock may be set or the machine may
// sleep, so the loop checks the time again after this interval.
const recheck = time.Minute

// set replaces the alarm. A zero due cancels it. The run loop has handled everything that was due at
// looked.
func (a *alarm) set(due, looked time.Time) {
	if a.stop != nil {
		a.stop()
		a.stop = nil
	}
	if due.IsZero() {
		return
	}
	// Due work that the loop could not do waits, for example for a slot. It is retried after
	// overdue.
	wait := min(max(due.Sub(a.clock.Now()), overdue), a.recheck)
	a.stop = a.clock.AfterFunc(wait, func() { a.in.post(runloop.Input{Kind: runloop.Due}) })
	if looked.Before(due) && !a.clock.Now().Before(due) {
		a.in.post(runloop.Input{Kind: runloop.Due}) // the time due has passed since looked
	}
}
