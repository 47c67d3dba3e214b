package worker

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// A run that ends the process of its worker takes down every run that the process owns, and nothing
// records which of them caused it. For each owned run the store counts the deaths of its workers
// (its recoveries), and resets the count at the run's next progress. Below quarantineAfter the
// count proves nothing, and such runs are executed together with all others. From quarantineAfter
// on a run is quarantined, and from Recoveries on it is poisoned: it fails without executing its
// code.
//
// An innocent run must never get that far, whichever runs share its worker. So quarantined runs are
// claimed exempt: the store does not count the death of their worker. They wait and are executed
// one at a time, each in its own turn. For a turn the worker begins nothing else, claims nothing,
// gives back runs that are not executing, and waits until those releases were answered and running
// work has ended. Only then does it commit that the exemption is over, and then the code begins:
// from here on a death counts, because no other run can have caused it. A turn ends once the run
// has made progress, which resets its recoveries, or has left the worker; or after turnTime,
// because other runs must not wait for a step that takes hours.
//
// The last recovery, which poisons, is counted only for a death in a turn during which the run was
// alone. An earlier one is also counted for a quarantined run whose turn is over, or that could not
// be alone because other runs' steps did not end. So a run that kills its worker late gets to its
// last turn, which lasts longer. The exemption is restored at the end of the last turn. Hence
//   - a run is poisoned only if its worker has died while it executed nothing else: an innocent run
//     only if something outside kills that process, in the run's turns and without progress;
//   - a run that kills its worker within the last turn has at most Recoveries deaths; one that
//     takes longer cannot be told from others, and ends with the attempts of its step;
//   - for quarantined runs that wait no deaths are counted, and fresh workers begin with
//     quarantined runs, because a turn begins as soon as one was claimed.
//
// Turns follow one another for at most turnTime. Then the worker does other work for as long, if
// there is any, so a run that is not quarantined waits for about two turns. All this costs nothing
// while there are no quarantined runs, and otherwise one commit per turn.

// turnTime is how long a quarantined run may keep other runs waiting, and how long it waits itself
// for work in flight. The last turn before a run is poisoned is as long as RunBudget.
const turnTime = 5 * time.Second

// turns decides which runs of the worker may be executed. It is guarded by runs.mu.
type turns struct {
	waiting   []quarantined          // owned and exempt runs that have not begun their turn
	now       atomic.Pointer[inputs] // the run whose turn it is, set with the lock held; nil if all runs but the waiting ones may execute
	alone     bool                   // no other run has work in flight
	begun     bool                   // the code of the run may begin
	number    int                    // number of the turn, by which timers of earlier turns are recognized
	since     time.Time              // when the first of consecutive turns was prepared
	openUntil time.Time              // until when other runs are executed before the next turn
	armed     bool                   // a timer for openUntil is set
}

// quarantined is a run that waits for its turn, with the maximum duration of that turn.
type quarantined struct {
	run  *inputs
	most time.Duration
}

// quarantineAfter returns how many recoveries make a run quarantined.
func (e *env) quarantineAfter() int { return max(e.cfg.Recoveries-2, 1) }

// exemptAfter returns how many recoveries make a run exempt when it is claimed; 0 means that no
// number does.
func (e *env) exemptAfter() int {
	if n := e.quarantineAfter(); n < e.cfg.Recoveries {
		return n
	}
	return 0 // the first death is the last, so the cause cannot be determined
}

// quarantined reports whether a run with that many recoveries is quarantined.
func (e *env) quarantined(recoveries int) bool {
	return recoveries >= e.quarantineAfter() && recoveries < e.cfg.Recoveries
}

// closedTo reports whether the run may begin nothing, because it is the turn of another run.
func (r *runs) closedTo(in *inputs) bool {
	now := r.turns.now.Load()
	return now != nil && now != in
}

// lineUp makes a quarantined run wait for its turn.
func (r *runs) lineUp(in *inputs, most time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owned[in.id] == in && !slices.ContainsFunc(r.turns.waiting, func(s quarantined) bool { return s.run == in }) {
		r.turns.waiting = append(r.turns.waiting, quarantined{in, most})
	}
	r.nextTurn()
}

// nextTurn prepares the turn of a quarantined run, if it is time for one, and makes all other runs
// give way. It must be called with the lock held.
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
	if !s.since.IsZero() && now.Sub(s.since) >= turnTime { // the other runs have waited long enough
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

// prepareTurn makes all other runs give way. It must be called with the lock held.
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
			r.beginTurn() // even if running steps have not ended
		}
	})
	r.checkAlone()
}

// openFor lets other runs execute for d, and then continues with quarantined runs. It must be
// called with the lock held.
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

// quiet continues with quarantined runs before openUntil, because nothing else is ready.
func (r *runs) quiet() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := &r.turns; len(s.waiting) > 0 && s.now.Load() == nil && r.occupied() == 0 {
		s.openUntil = time.Time{}
		r.nextTurn()
	}
}

// checkAlone begins the prepared turn once no other run has work in flight and all releases were
// confirmed. It must be called with the lock held.
func (r *runs) checkAlone() {
	if s := &r.turns; s.now.Load() != nil && !s.begun && r.occupied() == 1 && r.releasing == 0 {
		s.alone = true
		r.beginTurn()
	}
}

// beginTurn must be called with the lock held.
func (r *runs) beginTurn() {
	r.turns.begun = true
	r.turns.now.Load().post(input{kind: inputTick})
}

// turnOf returns the number of the current turn, whether no other run has work in flight, and
// whether this turn is of run in and has begun.
func (r *runs) turnOf(in *inputs) (number int, alone, begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.turns
	return s.number, s.alone, s.now.Load() == in && s.begun
}

// finishTurn ends the turn with that number, unless it has ended already.
func (r *runs) finishTurn(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turns.now.Load() != nil && r.turns.number == number {
		r.turns.now.Store(nil)
		r.nextTurn()
	}
}

// dismiss drops a run that has left. It must be called with the lock held.
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

// suspicion is the quarantine state of a run that may have caused the death of workers.
type suspicion struct {
	*execution
	*heldClaim
	runs   *runs
	turn   int          // number of its turn in quarantine, 0 for none; see turns
	blamed bool         // its exemption has ended
	exempt store.Exempt // how the next commit changes the exemption
}

// reset drops the state of an earlier claim of the run.
func (s *suspicion) reset() { s.turn, s.blamed, s.exempt = 0, false, store.ExemptUnchanged }

// lastTurn reports whether the run is poisoned if its worker dies once more.
func (s *suspicion) lastTurn() bool { return s.recoveries+1 >= s.cfg.Recoveries }

func (s *suspicion) turnTime() time.Duration {
	if s.lastTurn() {
		return max(s.cfg.RunBudget, turnTime)
	}
	return turnTime
}

// takeTurn reports whether it is the run's turn, and whether its code may begin. The store must
// have recorded before that whether a death counts.
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
	s.clock.AfterFunc(most+turnTime, func() { s.runs.finishTurn(number) }) // for code that blocks the loop even from ending the turn
	return true, true
}

// over lets other runs begin although the run has made no progress. In its last turn the run is
// made exempt again first, which takes a commit. If its code prevents even that commit, a timer
// lets the other runs begin.
func (s *suspicion) over(number int) {
	switch {
	case s.turn != number:
	case s.blamed && s.lastTurn():
		s.exempt = store.ExemptOn
	default:
		s.endTurn()
	}
}

// onExempt continues once the store has recorded whether a death counts.
func (s *suspicion) onExempt(e store.Exempt) {
	switch e {
	case store.ExemptOff:
		s.blamed = true
	case store.ExemptOn:
		s.blamed, s.exempt = false, store.ExemptUnchanged
		s.endTurn()
	}
}

// endTurn ends the turn of a quarantined run, if it has one.
func (s *suspicion) endTurn() {
	number := s.turn
	s.turn = 0
	if number == 0 {
		return
	}
	s.runs.finishTurn(number)
}

// acquit ends the quarantine of a run that has made progress.
func (s *suspicion) acquit() {
	s.recoveries, s.exempt = 0, store.ExemptUnchanged
	s.endTurn()
}
