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
	committer *committer
	loader    *loader
	steps     *steps
	ready     *queue[runnable]
	// outbox tells that there is something new in the outbox of a partition.
	outbox func(partition int)
}

// runLoop is the work on a run on this worker. It is driven by inputs: others post them, an
// executor handles them. All but the inputs belongs to the executor
// that has it.
//
// It is new, loading (it was claimed, its log is being read), live (its code
// is in memory and matches its log, or its run must be created with what the code has
// done), waiting (a suspect that must wait for
// another one) or away: given back, with its code perhaps still in memory for
// the next claim.
type runLoop struct {
	inputs
	*env
	*loopParts

	exec  *executor
	state loopState
	tenure
	suspicion
	logEnd
	start    *localStart // how the run will be created; nil: it exists
	run      *replay.Run
	inflight *commit
	spare    *commit  // answered, for the next one
	next     *claimed // a claim that came while a commit was in flight
	blocked  error    // why the run cannot go on here
	unread   unread
	under    underWay
	news     news
	ended    *handover.End // how the run has ended, as it leaves
	alarm    alarm
}

// tenure is the claim under which the run is worked on.
type tenure struct {
	route      store.Route
	workflowID string
	partition  int
	session    store.SessionID // under which it was claimed, or created
	fence      store.Fence
	recoveries int
	since      time.Time // of the claim
	claimSeq   uint64    // number of the claim; see inputOwned
}

// suspicion is about a run that may be to blame for the death of workers.
type suspicion struct {
	turn   int          // its turn as a suspect, 0: none; see turns
	blamed bool         // its exemption has ended
	exempt store.Exempt // what the next commit does to that
}

// logEnd is the log's end as far as it is known to be durable.
type logEnd struct {
	n     uint64 // frames
	seq   uint64
	last  event.CommitID
	size  logSize
	bytes int // of the log when it was claimed, if the store knows
}

// logSize is the size of a log in bytes.
type logSize struct {
	bytes   int
	limited int // when it was found to be too long; 0: it was not
}

// add counts a frame.
func (s *logSize) add(frame int, events []event.Event) {
	s.bytes += frame
	for i := range events {
		if e := &events[i]; e.Type == event.CancelRequested && e.Failure != nil && s.limited == 0 {
			s.limited = s.bytes
		}
	}
}

// underWay holds the attempts and steps of a run that are under way.
type underWay struct {
	attempts    map[uint64]*attempt // by step; from step_started on
	starts      []*attempt          // to start once their step_started is durable
	held        []*attempt          // durable, to start once the lease is live again
	gaveWay     bool                // a step was not started because others wait for a place
	cancels     []uint64            // steps to cancel once the reason is durable
	interrupted []uint64            // steps whose attempt died with another worker
}

// news has happened, and is in no confirmed commit.
type news struct {
	unsaved  []event.Event
	again    []store.Publication // of what was taken over from another run, to publish
	refusals []store.Publication // of questions that were taken, to publish
	reports  []report            // of events
}

// unread is the state of the inbox: the items that the run has not seen, and those that it
// has taken.
type unread struct {
	taken      []event.ItemID            // applied, not confirmed as removed from the inbox
	recent     map[event.ItemID]struct{} // applied since the last read of the inbox began, or not confirmed
	pending    []store.Item              // read from the inbox, and not applied yet
	read       extent                    // of taken: what events were made of
	logged     map[event.ItemID]bool     // while the inbox of a run that was read is applied: what is in its log
	late       []event.ItemID            // came when the code had ended
	lateWrites []event.Event             // of these: what steps have done to streams
	carried    []event.Event             // of these: what the run that it continues as is given
	caughtUp   bool                      // what the inbox held at the claim was taken
	wanted     bool                      // the inbox has something new
	loading    bool
	refused    int // times in a row that the inbox kept the run from leaving
	rereads    int // of the inbox since the code ended, with no commit that could have ended the run
}

// alarm wakes a run loop when something is due.
type alarm struct {
	at   time.Time
	stop func() bool
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
	t := &runLoop{env: e, loopParts: p}
	t.id, t.inputs.activity, t.inputs.ready = run, e.activity, t
	return t
}

func (t *runLoop) schedule()      { t.loopParts.ready.push(t) }
func (t *runLoop) shown() *inputs { return &t.inputs }

func (t *runLoop) committed(c *commit)  { t.post(input{kind: inputCommitted, commit: c}) }
func (t *runLoop) loaded(l *load)       { t.post(input{kind: inputLoaded, loaded: l}) }
func (t *runLoop) attempted(a *attempt) { t.post(input{kind: inputStep, attempt: a}) }

// alive reports whether the run is certainly still this worker's.
func (t *runLoop) alive() bool { return t.leases[t.partition].Alive(t.session) }

// leaving reports whether a commit that gives the run back is in flight. Nothing
// is begun meanwhile: the run may belong to somebody else already.
func (t *runLoop) leaving() bool {
	return t.inflight != nil && t.inflight.req.Effect != store.EffectNone
}

// apply lets an event come into effect, now.
func (t *runLoop) apply(e event.Event) {
	e.Time = t.clock.Now()
	t.exec.inUserCode(func() { _ = t.run.Apply(e) }) // Err is looked at in advance
}

// end ends a run without its code.
func (t *runLoop) end(e event.Event) {
	e.By = t.cfg.Name
	t.apply(e)
}

// block stops the work on a run that this worker's code does not fit, or whose log
// is damaged. It is given back as blocked once the steps that are under way have ended.
// The store notes that this session could not replay it, and gives it to sessions with
// other code, at once if they live; to one with the same code only when this session is
// over. So a run that fits nobody, and a damaged log, which no code fits, are read and
// reported once per build and life of a worker.
func (t *runLoop) block(err error) {
	if t.blocked != nil {
		return
	}
	if mismatch, ok := errors.AsType[*replay.MismatchError](err); ok {
		mismatch.Here = t.build
	}
	t.blocked = err
	t.under.interrupted = nil
	if len(t.under.attempts) > 0 { // their end may be the run's
		t.log.Warn("run cannot go on here: it will be blocked when its steps have ended", "run", t.id, "workflow", t.route.Workflow, "error", err)
	}
}

// dropAttempts ends what is under way and frees the slots of what never began.
func (t *runLoop) dropAttempts(cause error) {
	for _, a := range t.under.attempts {
		if a.launched {
			a.stop(cause)
		} else {
			t.steps.slots.release()
		}
	}
	t.under.attempts, t.under.starts, t.under.held = nil, nil, nil
}

func (t *runLoop) clearAlarm() {
	if t.alarm.stop != nil {
		t.alarm.stop()
		t.alarm.stop = nil
	}
	t.alarm.at = time.Time{}
}

// forget drops what is in memory of the run. Nothing of it was visible outside
// that is not in the log.
func (t *runLoop) forget() {
	if t.start != nil {
		t.start.Decline()
		t.start = nil
	}
	t.dropAttempts(errLost)
	if t.run != nil {
		run := t.run
		t.run = nil
		t.exec.inUserCode(run.Close)
	}
	t.clearAlarm()
	t.under, t.news, t.blocked, t.size = underWay{gaveWay: t.under.gaveWay}, news{}, nil, logSize{}
	t.unread = unread{refused: t.unread.refused, rereads: t.unread.rereads}
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
	t.clearAlarm()
	if t.run != nil {
		t.run.Lend(nil)
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

// read asks for the log and the inbox of a run that was claimed.
func (t *runLoop) read() {
	t.state = stateLoading
	t.loader.load(&load{by: t, run: t.id, fence: t.fence, partition: t.partition, bytes: t.bytes})
}

// newCommit returns a commit of so many events.
func (t *runLoop) newCommit(events int) *commit {
	c := t.spare
	if c == nil {
		c = &commit{}
	}
	t.spare = nil
	*c = commit{run: t, events: events}
	return c
}

// send hands on the commit of the run.
func (t *runLoop) send(c *commit) {
	t.inflight = c
	t.committer.commit(c)
}
