package worker

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// A run that ends the process of its worker takes along whatever that process owns, and
// nobody is left to say which of them it was. The store counts for each owned run that its
// worker has died (its recoveries, forgotten with its next progress). Below suspectAfter that
// proves nothing, and such runs are executed together with all others. From there on a run is
// a suspect, and from Recoveries on it is poisoned: it is failed without executing its code.
//
// An innocent run must never get that far, whoever dies beside it. So suspects are claimed
// exempt: the store does not count the death of their worker. They wait, and are executed one
// at a time, each in a turn of its own: the worker begins nothing else, claims nothing, gives
// back what is not executing, and waits until that has been answered and what was under way has
// ended. Only then it commits that the exemption is over, and then the code begins: from here on a
// death counts, and whose else could it be? A turn ends once the run has made progress, which
// forgets what it was suspected of, or has left the worker; or after turnTime, for others
// must not wait for a step that takes hours.
//
// The last recovery, which poisons, is counted only for a death in a turn, alone. One before it
// is counted as well for a suspect whose turn is over, or that could not be alone because
// others' steps did not end: so that a run which kills its worker late gets to its last turn,
// which lasts longer. There its exemption is restored when the turn is over. Hence
//   - a run is poisoned only if its worker has died while it executed nothing else: an innocent
//     one only if somebody kills that process from outside, in its turns and without progress;
//   - a run that kills within the last turn has Recoveries deaths, no more; one that takes longer
//     is not told from others, and ends with the attempts of its step;
//   - suspects that wait have no deaths counted, and fresh workers begin with suspects, because
//     a turn begins as soon as one was claimed.
//
// Turns follow one another for turnTime at most, then the worker does other work for as long,
// if there is any: a run that is none of the suspects waits for about two turns. All that costs
// nothing as long as there are no suspects, and one commit for each turn else.

// turnTime is how long a suspect may keep others waiting, and how long it waits itself for
// what is under way. The last turn before a run is poisoned is as long as RunBudget.
const turnTime = 5 * time.Second

// turns decides whether runs of the worker may be executed, and which. It is guarded by
// Worker.mu.
type turns struct {
	waiting   []*task              // suspects, owned and exempt, of which nothing was executed
	now       atomic.Pointer[task] // whose turn it is, set with the lock held; nil: everybody's but of those that wait
	alone     bool                 // nothing else is under way
	begun     bool                 // its code may begin
	number    int                  // of the turn: what was set for an earlier one is over
	since     time.Time            // when the first turn in a row was prepared
	openUntil time.Time            // others have their time until then
	armed     bool                 // there is a timer for that
}

// suspectAfter is how many recoveries make a run a suspect.
func (w *Worker) suspectAfter() int { return max(w.cfg.Recoveries-2, 1) }

// exemptAfter is how many recoveries make a run exempt when it is claimed; 0: none do.
func (w *Worker) exemptAfter() int {
	if n := w.suspectAfter(); n < w.cfg.Recoveries {
		return n
	}
	return 0 // the first death is the last: nobody can tell whose fault it was
}

// suspected reports whether a run with so many recoveries is one.
func (w *Worker) suspected(recoveries int) bool {
	return recoveries >= w.suspectAfter() && recoveries < w.cfg.Recoveries
}

// lastTurn reports whether the run is poisoned if its worker dies once more.
func (t *task) lastTurn() bool { return t.recoveries+1 >= t.w.cfg.Recoveries }

func (t *task) turnTime() time.Duration {
	if t.lastTurn() {
		return max(t.w.cfg.RunBudget, turnTime)
	}
	return turnTime
}

// closedTo reports whether the run may begin nothing, because it is the turn of another.
func (w *Worker) closedTo(t *task) bool {
	now := w.turns.now.Load()
	return now != nil && now != t
}

// occupied returns how many runs the worker works on: suspects that wait are not among
// them. It is called with the lock held.
func (w *Worker) occupied() int { return len(w.tasks) - len(w.turns.waiting) }

// lineUp lets a suspect wait for its turn.
func (w *Worker) lineUp(t *task) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.tasks[t.id] == t && !slices.Contains(w.turns.waiting, t) {
		w.turns.waiting = append(w.turns.waiting, t)
	}
	w.nextTurn()
}

// nextTurn prepares the turn of a suspect, if it is time for one: whatever else is here is
// told to give way. It is called with the lock held.
func (w *Worker) nextTurn() {
	s, now := &w.turns, w.clock.Now()
	if s.now.Load() != nil {
		w.checkAlone()
		return
	}
	if len(s.waiting) == 0 || w.stopping.Load() {
		if !s.since.IsZero() {
			s.since = time.Time{}
			w.poke()
		}
		return
	}
	if wait := s.openUntil.Sub(now); wait > 0 {
		w.openFor(wait)
		return
	}
	if !s.since.IsZero() && now.Sub(s.since) >= turnTime { // others have waited for long enough
		s.openUntil, s.since = now.Add(min(now.Sub(s.since), w.cfg.RunBudget)), time.Time{}
		w.poke()
		w.nextTurn()
		return
	}
	if s.since.IsZero() {
		s.since = now
	}
	w.prepareTurn()
}

// prepareTurn tells whatever else is here to give way. It is called with the lock held.
func (w *Worker) prepareTurn() {
	s := &w.turns
	next := s.waiting[0]
	s.now.Store(next)
	s.number++
	s.alone, s.begun, s.waiting = false, false, slices.Delete(s.waiting, 0, 1)
	for _, t := range w.tasks {
		if t != next {
			t.post(input{kind: inputGiveWay})
		}
	}
	number := s.number
	w.clock.AfterFunc(next.turnTime(), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if s.number == number && s.now.Load() != nil && !s.begun {
			w.beginTurn() // beside what does not end
		}
	})
	w.checkAlone()
}

// openFor lets others have their time, and then goes on with suspects. It is called with the lock
// held.
func (w *Worker) openFor(d time.Duration) {
	if w.turns.armed {
		return
	}
	w.turns.armed = true
	w.clock.AfterFunc(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.turns.armed = false
		w.nextTurn()
	})
}

// quiet goes on with suspects before the time of others is over: nothing else is ready.
func (w *Worker) quiet() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if s := &w.turns; len(s.waiting) > 0 && s.now.Load() == nil && w.occupied() == 0 {
		s.openUntil = time.Time{}
		w.nextTurn()
	}
}

// checkAlone begins the turn that was prepared once nothing else is under way, and all that was
// given back is known to be. It is called with the lock held.
func (w *Worker) checkAlone() {
	if s := &w.turns; s.now.Load() != nil && !s.begun && w.occupied() == 1 && w.releasing == 0 {
		s.alone = true
		w.beginTurn()
	}
}

// beginTurn is called with the lock held.
func (w *Worker) beginTurn() {
	w.turns.begun = true
	w.turns.now.Load().post(input{kind: inputTick})
}

// takeTurn begins with the code of a suspect, once the store knows whether that counts.
func (t *task) takeTurn() {
	t.w.mu.Lock()
	s := &t.w.turns
	mine := s.now.Load() == t && s.begun
	alone, number := s.alone, s.number
	t.w.mu.Unlock()
	if !mine || t.inflight != nil || !t.alive() {
		return
	}
	t.turn = number
	counts := alone || !t.lastTurn()
	if counts && !t.blamed {
		c := t.newCommit(0)
		c.req = store.Commit{Run: t.id, WorkflowID: t.workflowID, Fence: t.fence, Prev: t.last, Exempt: store.ExemptOff}
		t.send(c, t.w.commits)
		return
	}
	w, most := t.w, t.turnTime()
	w.clock.AfterFunc(most, func() { t.post(input{kind: inputTurnOver, turn: number}) })
	w.clock.AfterFunc(most+turnTime, func() { // its code does not even let it hear of that
		w.mu.Lock()
		defer w.mu.Unlock()
		w.finishTurn(number)
	})
	t.read()
}

// onTurnOver lets others begin, although the run has made no progress. In its last turn it
// is made exempt again before that, which takes a commit; if its code keeps even
// that from being made, others go on all the same.
func (t *task) onTurnOver(number int) {
	switch {
	case t.turn != number || t.state == taskAway:
	case t.blamed && t.lastTurn():
		t.exempt = store.ExemptOn
	default:
		t.endTurn()
	}
}

// onExempt goes on when the store knows what becomes of a death.
func (t *task) onExempt(e store.Exempt) {
	switch e {
	case store.ExemptOff:
		t.blamed = true
	case store.ExemptOn:
		t.blamed, t.exempt = false, store.ExemptUnchanged
		t.endTurn()
	}
}

// endTurn is called when the turn of a suspect is over.
func (t *task) endTurn() {
	number := t.turn
	t.turn = 0
	if number == 0 {
		return
	}
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.w.finishTurn(number)
}

// finishTurn is called with the lock held.
func (w *Worker) finishTurn(number int) {
	if w.turns.now.Load() != nil && w.turns.number == number {
		w.turns.now.Store(nil)
		w.nextTurn()
	}
}

// dismiss forgets a task that has left as a suspect. It is called with the lock held.
func (w *Worker) dismiss(t *task) {
	s := &w.turns
	s.waiting = slices.DeleteFunc(s.waiting, func(other *task) bool { return other == t })
	if s.now.Load() == t {
		s.now.Store(nil)
	}
	if s.now.Load() != nil || len(s.waiting) > 0 || !s.since.IsZero() {
		w.nextTurn()
	}
}

// acquit notes that what a suspect was suspected of is forgotten: it has made progress.
func (t *task) acquit() {
	t.recoveries, t.exempt = 0, store.ExemptUnchanged
	t.endTurn()
}

// onGiveWay gives the run back because it is the turn of a suspect: at once, unless something of it
// is under way. Then it begins nothing more, and leaves with its next commit.
func (t *task) onGiveWay() {
	if t.w.closedTo(t) && (t.state == taskNew || t.state == taskLoading) && t.recoveries < t.w.cfg.Recoveries {
		t.lose(&t.fence)
	}
}
