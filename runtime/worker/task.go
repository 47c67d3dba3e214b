package worker

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/handover"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// task is a run on this worker. It is driven by inputs: others post them, an
// executor handles them. All fields below the inputs belong to the executor
// that has the task.
//
// A task is new, loading (it was claimed, its log is being read), live (its code
// is in memory and matches its log, or its run is to be created with what the code has
// done: birth), waiting (a suspect that must wait for
// another one) or away: given back, with its code perhaps still in memory for
// the next claim.
type task struct {
	w  *Worker
	id event.RunID

	mu        sync.Mutex
	inputs    []input
	scheduled bool
	label     string               // the workflow's name
	followers []chan *handover.End // who waits for the end; see Follow
	lined     bool                 // waits for a slot; guarded by Worker.mu
	claimSeq  uint64               // number of the claim; see inputOwned

	// unbegun is the claim of a run that was only created; nil once it has got further, or
	// its status has: see Worker.tellBegun.
	unbegun atomic.Pointer[claimed]

	exec       *executor
	state      taskState
	class      store.Class
	workflowID string
	partition  int
	session    store.SessionID // under which it was claimed, or born
	fence      store.Fence
	recoveries int
	since      time.Time // of the claim

	turn   int          // its turn as a suspect, 0: none; see turns
	blamed bool         // its exemption has ended
	exempt store.Exempt // what the next commit does to that

	// n, seq and last are the log's end as far as it is known to be durable, and size its
	// frames in bytes.
	n     uint64
	seq   uint64
	last  event.CID
	size  logSize
	bytes int // of the log when it was claimed, if the store knows

	birth    *start // how the run is to be created; nil: it exists
	run      *replay.Run
	unsaved  []event.Event // happened, not in a confirmed commit
	inflight *commit
	spare    *commit  // answered, for the next one
	next     *claimed // a claim that came while a commit was in flight

	again    []store.Publication // of what was taken over from another run, to publish
	refusals []store.Publication // of questions that were taken, to publish

	attempts    map[uint64]*attempt // by step; from step_started on
	starts      []*attempt          // to start once their step_started is durable
	held        []*attempt          // durable, to start once the lease is live again
	gaveWay     bool                // a step was not started because others wait for a place
	cancels     []uint64            // steps to cancel once the reason is durable
	interrupted []uint64            // steps whose attempt died with another worker
	blocked     error               // why the run cannot go on here
	reports     []report            // of events that are not in a confirmed commit

	taken       []event.ItemID            // applied, not confirmed as removed from the inbox
	recent      map[event.ItemID]struct{} // applied since the last read of the inbox began, or not confirmed
	pending     []store.Item              // read from the inbox, and not applied yet
	mail        mail                      // of taken: what events were made of
	logged      map[event.ItemID]bool     // while the inbox of a run that was read is applied: what is in its log
	late        []event.ItemID            // came when the code had ended
	lateWrites  []event.Event             // of these: what steps have done to streams
	carried     []event.Event             // of these: what the run that it continues as is given
	caughtUp    bool                      // what the inbox held at the claim was taken
	mailWanted  bool
	mailLoading bool
	refused     int // times in a row that the inbox kept the run from leaving
	rereads     int // of the inbox since the code ended, with no commit that could have ended the run

	ended     *handover.End // how the run has ended, as it leaves
	alarmAt   time.Time
	stopAlarm func() bool
}

// mail is how much of an inbox.
type mail struct{ items, bytes int }

type taskState uint8

const (
	taskNew taskState = iota
	taskLoading
	taskWaiting
	taskLive
	taskAway
)

type inputKind uint8

const (
	inputClaimed   inputKind = iota // the run was claimed
	inputStart                      // the run is to be created
	inputLoaded                     // its log, or only its inbox, was read
	inputMail                       // its inbox has something new
	inputStep                       // an attempt has ended
	inputCommitted                  // a commit was answered
	inputTick                       // something is due, or a slot for a step may be free
	inputLost                       // the claim is gone
	inputOwned                      // what the store says this session owns
	inputStop                       // the worker stops
	inputEvict                      // the memory is needed
	inputGiveWay                    // it is the turn of a suspect; see turns
	inputTurnOver                   // that of the run is over
)

// input is one of them, with what belongs to its kind.
type input struct {
	kind    inputKind
	claimed *claimed
	start   *start
	loaded  *load
	attempt *attempt
	commit  *commit
	owned   *ownedRuns
	turn    int
}

// claimed is a claim of a run, under a session of the worker.
type claimed struct {
	store.ClaimedRun
	partition int
	session   store.SessionID
	seq       uint64 // number of the claim
}

// ownedRuns is what the store says that a session owns, and the last claim before it
// was asked.
type ownedRuns struct {
	fences   map[event.RunID]store.Fence
	claimSeq uint64
}

// post gives the task something to do. Whoever posts next finds the task in the
// queue: what a worker that stops posts last must not wait for somebody who was
// held up here, and comes when no executor is left.
func (t *task) post(in input) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.inputs = append(t.inputs, in)
	if t.scheduled {
		return
	}
	t.scheduled = true
	t.w.activity.Begin()
	t.w.queue.push(t)
}

// takeInputs returns what was posted. When there is nothing the task is no
// longer with the executor. What comes next is put where that is which was taken
// before, and is handled; a task that is away keeps no room for it.
func (t *task) takeInputs(handled []input) []input {
	clear(handled)
	t.mu.Lock()
	defer t.mu.Unlock()
	in := t.inputs
	t.inputs = handled[:0]
	if len(in) == 0 {
		if t.state == taskAway {
			t.inputs = nil
		}
		t.scheduled = false
		t.w.activity.End()
	}
	return in
}

func (t *task) handle(in *input) {
	switch in.kind {
	case inputClaimed:
		t.onClaimed(in.claimed)
	case inputStart:
		t.onStart(in.start)
	case inputLoaded:
		t.onLoaded(in.loaded)
	case inputMail:
		t.mailWanted = t.state != taskAway // also while the log is read: the read may have been before it
	case inputStep:
		t.onStep(in.attempt, &in.attempt.outcome)
	case inputCommitted:
		t.onCommitted(in.commit)
	case inputLost:
		t.lose(nil)
	case inputOwned:
		fence, ok := in.owned.fences[t.id]
		if t.state != taskAway && t.claimSeq <= in.owned.claimSeq && (!ok || fence != t.fence) && t.inflight == nil {
			t.lose(nil)
		}
	case inputStop:
		t.onStop()
	case inputEvict:
		if t.state == taskAway {
			t.forget()
		}
	case inputGiveWay:
		t.onGiveWay()
	case inputTurnOver:
		t.onTurnOver(in.turn)
	case inputTick:
		t.alarmAt = time.Time{}
	}
}

// onClaimed begins the work on a run, from memory if its log has not moved.
func (t *task) onClaimed(c *claimed) {
	if t.inflight != nil {
		t.next = c
		return
	}
	if !t.w.own(t) {
		t.forget() // another claim of the same run was faster: this one is over
		return
	}
	usable := t.state == taskAway && t.run != nil && t.blocked == nil && len(t.unsaved) == 0 && t.last == c.Last && t.n == c.N &&
		c.Recoveries < t.w.suspectAfter() // a suspect waits for its turn
	t.class, t.workflowID, t.partition, t.session = c.Class, c.WorkflowID, c.partition, c.session
	t.fence, t.recoveries, t.since = c.Fence, c.Recoveries, t.w.clock.Now()
	t.refused, t.rereads, t.caughtUp, t.claimSeq = 0, 0, false, c.seq
	t.turn, t.blamed, t.exempt = 0, false, store.ExemptUnchanged
	t.mu.Lock()
	t.label = c.Class.Workflow
	t.mu.Unlock()
	if t.w.stopping.Load() || t.w.closedTo(t) && c.Recoveries < t.w.suspectAfter() {
		t.state = taskNew
		t.lose(&t.fence) // the worker claims nothing more, or not now
		return
	}
	if usable {
		t.state = taskLive
		// A read that was under way when the run left is not answered any more, and
		// mail may have been announced while this claim waited for that.
		t.mailWanted, t.mailLoading = t.mailWanted || c.Mail, false
		return
	}
	t.forget()
	t.n, t.seq, t.last, t.bytes = c.N, c.Seq, c.Last, c.Bytes
	if t.w.suspected(c.Recoveries) {
		t.state = taskWaiting
		t.w.lineUp(t)
		return
	}
	t.readClaimed(c.Loaded)
}

// forget drops what is in memory of the run. Nothing of it was visible outside
// that is not in the log.
func (t *task) forget() {
	if t.birth != nil {
		t.birth.Decline()
		t.birth = nil
	}
	t.dropAttempts(errLost)
	if t.run != nil {
		run := t.run
		t.run = nil
		t.exec.inUserCode(run.Close)
	}
	t.clearAlarm()
	t.unsaved, t.again, t.refusals, t.cancels, t.interrupted, t.reports = nil, nil, nil, nil, nil, nil
	t.taken, t.recent, t.late, t.lateWrites, t.carried = nil, nil, nil, nil, nil
	t.pending, t.logged, t.mail, t.caughtUp = nil, nil, mail{}, false
	t.mailWanted, t.mailLoading, t.blocked, t.size = false, false, nil, logSize{}
}

// name returns the workflow's name, for reports from other goroutines.
func (t *task) name() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.label
}

// lose drops the run because it belongs to somebody else now, or because what is
// known of it is wrong; then give says to give it back.
func (t *task) lose(give *store.Fence) {
	if t.state == taskAway {
		return
	}
	t.forget()
	t.inflight = nil
	if give != nil {
		t.w.release(t.id, *give)
	}
	t.leave(false)
}

// leave ends the ownership. A run that keeps its memory waits for its next claim
// among the parked ones.
func (t *task) leave(keep bool) {
	t.state = taskAway
	t.clearAlarm()
	if t.run != nil {
		t.run.Lend(nil)
	}
	t.w.disown(t, keep)
	t.tellFollowers()
	if t.next != nil {
		c := t.next
		t.next = nil
		t.onClaimed(c)
	}
}

// onStop makes a run that is not being executed leave at once; one that is ends
// what it does first.
func (t *task) onStop() {
	switch t.state {
	case taskNew, taskLoading, taskWaiting:
		t.lose(&t.fence)
	case taskLive:
		t.endAttempts()
	}
}

// endAttempts ends the attempts of the run once the grace period is over: first they are
// asked to end, and what they answer counts; in the end they are left behind.
func (t *task) endAttempts() {
	if !t.w.ending.Load() {
		return
	}
	hard := t.w.hard.Load()
	for _, a := range slices.SortedFunc(maps.Values(t.attempts), func(a, b *attempt) int { return cmp.Compare(a.ref, b.ref) }) {
		switch {
		case a.launched && !hard:
			a.stop(ErrStopping)
		case a.launched, slices.Contains(t.held, a):
			t.giveBack(a)
		}
	}
	t.held = slices.DeleteFunc(t.held, func(a *attempt) bool { return t.attempts[a.ref] != a })
}

// overdue is how often a task looks again at what was due and could not be done.
const overdue = 20 * time.Millisecond

// lookAgain bounds how long a task trusts an alarm: the clock may be set, or the
// machine may sleep.
const lookAgain = time.Minute

// setAlarm wakes the task when something in it is due while it is kept busy by
// something else.
func (t *task) setAlarm() {
	if t.state != taskLive || t.run == nil {
		return
	}
	if t.leaving() {
		t.clearAlarm() // it is the store that wakes it
		return
	}
	due := t.run.Fold().Due()
	if due.Equal(t.alarmAt) {
		return
	}
	t.clearAlarm()
	if due.IsZero() || t.run.Ended() {
		return
	}
	// What is due already waits for something else, such as a slot.
	wait := min(max(due.Sub(t.w.clock.Now()), overdue), t.w.lookAgain)
	t.alarmAt = due
	t.stopAlarm = t.w.clock.AfterFunc(wait, func() { t.post(input{kind: inputTick}) })
	if wait > overdue && !t.w.clock.Now().Before(due) {
		t.post(input{kind: inputTick}) // the clock has jumped in between
	}
}

func (t *task) clearAlarm() {
	if t.stopAlarm != nil {
		t.stopAlarm()
		t.stopAlarm = nil
	}
	t.alarmAt = time.Time{}
}

// release gives a run back outside of a commit, in the background: if it fails,
// the next reconciliation finds the run.
func (w *Worker) release(run event.RunID, fence store.Fence) {
	if w.hard.Load() {
		return // closing the session gives back what is left
	}
	w.mu.Lock()
	w.releasing++
	w.mu.Unlock()
	w.activity.Begin()
	w.work.Go(func() {
		defer w.activity.End()
		defer w.released()
		ctx, cancel := context.WithTimeout(w.io, 5*time.Second)
		defer cancel()
		_ = w.store.Release(ctx, run, fence) // fenced: it is somebody else's already
	})
}

// released notes that a run was given back.
func (w *Worker) released() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.releasing--
	w.checkAlone()
	w.checkIdle()
}
