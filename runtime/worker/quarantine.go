package worker

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// A run that ends the process of its worker takes along whatever that process owns, and
// nobody is left to say which of them it was. The store counts for each owned run that its
// worker has died (its recoveries, forgotten with its next progress). Below quarantineAfter that
// proves nothing, and such runs are executed together with all others. From there on a run is
// quarantined, and from Recoveries on it is poisoned: it is failed without executing its code.
//
// An innocent run must never get that far, whoever dies beside it. So quarantined runs are claimed
// exempt: the store does not count the death of their worker. They wait, and are executed one
// at a time, each in a turn of its own: the worker begins nothing else, claims nothing, gives
// back what is not executing, and waits until that has been answered and what was under way has
// ended. Only then it commits that the exemption is over, and then the code begins: from here on a
// death counts, and whose else could it be? A turn ends once the run has made progress, which
// forgets what it was quarantined for, or has left the worker; or after turnTime, for others
// must not wait for a step that takes hours.
//
// The last recovery, which poisons, is counted only for a death in a turn, alone. One before it
// is counted as well for a quarantined run whose turn is over, or that could not be alone because
// others' steps did not end: so that a run which kills its worker late gets to its last turn,
// which lasts longer. There its exemption is restored when the turn is over. Hence
//   - a run is poisoned only if its worker has died while it executed nothing else: an innocent
//     one only if somebody kills that process from outside, in its turns and without progress;
//   - a run that kills within the last turn has Recoveries deaths, no more; one that takes longer
//     is not told from others, and ends with the attempts of its step;
//   - quarantined runs that wait have no deaths counted, and fresh workers begin with quarantined runs, because
//     a turn begins as soon as one was claimed.
//
// Turns follow one another for turnTime at most, then the worker does other work for as long,
// if there is any: a run that is not quarantined waits for about two turns. All that costs
// nothing as long as there are no quarantined runs, and one commit for each turn else.

// turnTime is how long a quarantined run may keep others waiting, and how long it waits itself for
// what is under way. The last turn before a run is poisoned is as long as RunBudget.
const turnTime = 5 * time.Second

// turns decides whether runs of the worker may be executed, and which. It is guarded by
// runs.mu.
type turns struct {
	waiting   []quarantined          // owned and exempt, of which nothing was executed
	now       atomic.Pointer[inputs] // whose turn it is, set with the lock held; nil: everybody's but of those that wait
	alone     bool                   // nothing else is under way
	begun     bool                   // its code may begin
	number    int                    // of the turn: what was set for an earlier one is over
	since     time.Time              // when the first turn in a row was prepared
	openUntil time.Time              // others have their time until then
	armed     bool                   // there is a timer for that
}

// quarantined is a run that waits for its turn, which may take so long.
type quarantined struct {
	run  *inputs
	most time.Duration
}

// quarantineAfter is how many recoveries make a run quarantined.
func (e *env) quarantineAfter() int { return max(e.cfg.Recoveries-2, 1) }

// exemptAfter is how many recoveries make a run exempt when it is claimed; 0: none do.
func (e *env) exemptAfter() int {
	if n := e.quarantineAfter(); n < e.cfg.Recoveries {
		return n
	}
	return 0 // the first death is the last: nobody can tell whose fault it was
}

// quarantined reports whether a run with so many recoveries is.
func (e *env) quarantined(recoveries int) bool {
	return recoveries >= e.quarantineAfter() && recoveries < e.cfg.Recoveries
}

// closedTo reports whether the run may begin nothing, because it is the turn of another.
func (r *runs) closedTo(in *inputs) bool {
	now := r.turns.now.Load()
	return now != nil && now != in
}

// lineUp lets a quarantined run wait for its turn.
func (r *runs) lineUp(in *inputs, most time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owned[in.id] == in && !slices.ContainsFunc(r.turns.waiting, func(s quarantined) bool { return s.run == in }) {
		r.turns.waiting = append(r.turns.waiting, quarantined{in, most})
	}
	r.nextTurn()
}

// nextTurn prepares the turn of a quarantined run, if it is time for one: whatever else is here is
// told to give way. It is called with the lock held.
func (r *runs) nextTurn() {
	s, now := &r.turns, r.clock.Now()
	if s.now.Load() != nil {
		r.checkAlone()
		return
	}
	if len(s.waiting) == 0 || r.stopping.Load() {
		if !s.since.IsZero() {
			s.since = time.Time{}
			r.freed.Notify()
		}
		return
	}
	if wait := s.openUntil.Sub(now); wait > 0 {
		r.openFor(wait)
		return
	}
	if !s.since.IsZero() && now.Sub(s.since) >= turnTime { // others have waited for long enough
		s.openUntil, s.since = now.Add(min(now.Sub(s.since), r.cfg.RunBudget)), time.Time{}
		r.freed.Notify()
		r.nextTurn()
		return
	}
	if s.since.IsZero() {
		s.since = now
	}
	r.prepareTurn()
}

// prepareTurn tells whatever else is here to give way. It is called with the lock held.
func (r *runs) prepareTurn() {
	s := &r.turns
	next := s.waiting[0]
	s.now.Store(next.run)
	s.number++
	s.alone, s.begun, s.waiting = false, false, slices.Delete(s.waiting, 0, 1)
	for _, in := range r.owned {
		if in != next.run {
			in.post(input{kind: inputGiveWay})
		}
	}
	number := s.number
	r.clock.AfterFunc(next.most, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if s.number == number && s.now.Load() != nil && !s.begun {
			r.beginTurn() // beside what does not end
		}
	})
	r.checkAlone()
}

// openFor lets others have their time, and then goes on with quarantined runs. It is called with the lock
// held.
func (r *runs) openFor(d time.Duration) {
	if r.turns.armed {
		return
	}
	r.turns.armed = true
	r.clock.AfterFunc(d, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.turns.armed = false
		r.nextTurn()
	})
}

// quiet goes on with quarantined runs before the time of others is over: nothing else is ready.
func (r *runs) quiet() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := &r.turns; len(s.waiting) > 0 && s.now.Load() == nil && r.occupied() == 0 {
		s.openUntil = time.Time{}
		r.nextTurn()
	}
}

// checkAlone begins the turn that was prepared once nothing else is under way, and all that was
// given back is known to be. It is called with the lock held.
func (r *runs) checkAlone() {
	if s := &r.turns; s.now.Load() != nil && !s.begun && r.occupied() == 1 && r.releasing == 0 {
		s.alone = true
		r.beginTurn()
	}
}

// beginTurn is called with the lock held.
func (r *runs) beginTurn() {
	r.turns.begun = true
	r.turns.now.Load().post(input{kind: inputTick})
}

// turnOf returns the turn of a run, if it has begun, and whether nothing else is under way.
func (r *runs) turnOf(in *inputs) (number int, alone, begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.turns
	return s.number, s.alone, s.now.Load() == in && s.begun
}

// finishTurn lets others begin, unless they have already.
func (r *runs) finishTurn(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turns.now.Load() != nil && r.turns.number == number {
		r.turns.now.Store(nil)
		r.nextTurn()
	}
}

// dismiss forgets a run that has left. It is called with the lock held.
func (r *runs) dismiss(in *inputs) {
	s := &r.turns
	s.waiting = slices.DeleteFunc(s.waiting, func(other quarantined) bool { return other.run == in })
	if s.now.Load() == in {
		s.now.Store(nil)
	}
	if s.now.Load() != nil || len(s.waiting) > 0 || !s.since.IsZero() {
		r.nextTurn()
	}
}

// suspicion is about a run that may be to blame for the death of workers.
type suspicion struct {
	*execution
	*tenure
	runs   *runs
	turn   int          // its turn in quarantine, 0: none; see turns
	blamed bool         // its exemption has ended
	exempt store.Exempt // what the next commit does to that
}

// reset forgets what an earlier claim of the run has said.
func (s *suspicion) reset() { s.turn, s.blamed, s.exempt = 0, false, store.ExemptUnchanged }

// lastTurn reports whether the run is poisoned if its worker dies once more.
func (s *suspicion) lastTurn() bool { return s.recoveries+1 >= s.cfg.Recoveries }

func (s *suspicion) turnTime() time.Duration {
	if s.lastTurn() {
		return max(s.cfg.RunBudget, turnTime)
	}
	return turnTime
}

// takeTurn reports whether it is the run's turn, and whether its code may begin: the store
// must know before that whether a death counts.
func (s *suspicion) takeTurn() (mine, begins bool) {
	number, alone, mine := s.runs.turnOf(s.in)
	if !mine {
		return false, false
	}
	s.turn = number
	counts := alone || !s.lastTurn()
	if counts && !s.blamed {
		return true, false
	}
	most := s.turnTime()
	s.clock.AfterFunc(most, func() { s.in.post(input{kind: inputTurnOver, turn: number}) })
	s.clock.AfterFunc(most+turnTime, func() { s.runs.finishTurn(number) }) // its code does not even let it hear of that
	return true, true
}

// over lets others begin, although the run has made no progress. In its last turn it
// is made exempt again before that, which takes a commit; if its code keeps even
// that from being made, others go on all the same.
func (s *suspicion) over(number int) {
	switch {
	case s.turn != number:
	case s.blamed && s.lastTurn():
		s.exempt = store.ExemptOn
	default:
		s.endTurn()
	}
}

// onExempt goes on when the store knows what becomes of a death.
func (s *suspicion) onExempt(e store.Exempt) {
	switch e {
	case store.ExemptOff:
		s.blamed = true
	case store.ExemptOn:
		s.blamed, s.exempt = false, store.ExemptUnchanged
		s.endTurn()
	}
}

// endTurn is called when the turn of a quarantined run is over.
func (s *suspicion) endTurn() {
	number := s.turn
	s.turn = 0
	if number == 0 {
		return
	}
	s.runs.finishTurn(number)
}

// acquit records that what a run was quarantined for is forgotten: it has made progress.
func (s *suspicion) acquit() {
	s.recoveries, s.exempt = 0, store.ExemptUnchanged
	s.endTurn()
}
