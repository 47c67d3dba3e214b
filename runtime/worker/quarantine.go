package worker

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/runloop"
)

// A run whose code ends the worker's process ends the execution of every run that the process owns.
// Nothing records which run was the cause. For each owned run the store counts the deaths of its
// workers, the recoveries of the run, and resets the count when the run makes progress. A run with
// fewer than quarantineAfter recoveries is executed together with other runs, because so few deaths
// prove nothing. A run with quarantineAfter or more recoveries is quarantined. A run with
// Recoveries recoveries is poisoned: it fails without executing its code.
//
// A run that does not kill workers must not be poisoned, whichever runs share its worker. So
// quarantined runs are claimed exempt, which means that the store does not count the death of their
// worker. They wait and are executed one at a time, each in its own turn. To prepare a turn, the
// worker begins no other work, claims nothing, and gives back the runs that are not executing. It
// waits until those releases were answered and running work has ended. Then it commits the end of
// the exemption, and the code begins only after that commit. From then on a death counts, because
// no other run can have caused it. A turn ends when the run has made progress, which resets its
// recoveries, or has left the worker. It also ends after runloop.TurnTime, because other runs must not wait
// for a step that takes hours.
//
// The last recovery, which poisons the run, is counted only for a death in a turn during which no
// other run had work in flight. An earlier recovery of a quarantined run is counted in two more
// cases: the turn of the run is over, or steps of other runs did not end in time for its turn. So a
// run that kills its worker late reaches its last turn, which lasts longer. At the end of the last
// turn the run becomes exempt again. This has the following consequences:
//   - A run is poisoned only if its worker has died while it executed nothing else. An innocent run
//     is poisoned only if an outside cause ends the process in the turns of the run, and the run
//     makes no progress in between.
//   - A run that kills its worker within the last turn causes at most Recoveries deaths. A run that
//     takes longer cannot be distinguished from others. It fails when its step has no attempts left.
//   - Deaths are not counted for quarantined runs that wait. A new worker begins with quarantined
//     runs, because a turn begins as soon as one was claimed.
//
// Turns follow one another for at most runloop.TurnTime. Then the worker does other work for the same time,
// if there is any. So a run that is not quarantined waits for about two turns. The quarantine costs
// nothing while there are no quarantined runs, and otherwise one commit per turn.

// turns decides which runs of the worker may be executed. runs.mu guards it.
type turns struct {
	waiting   []quarantined          // owned and exempt runs that have not begun their turn
	now       atomic.Pointer[inputs] // the run whose turn it is; nil if all runs except the waiting ones may execute; set with the lock held
	alone     bool                   // whether no other run has work in flight
	begun     bool                   // whether the code of the run may begin
	number    int                    // number of the turn; timers of earlier turns have another number
	since     time.Time              // when the first of consecutive turns was prepared
	openUntil time.Time              // end of the period in which other runs are executed before the next turn
	armed     bool                   // whether a timer for openUntil is set
}

// quarantined is a run that waits for its turn, with the maximum duration of that turn.
type quarantined struct {
	run  *inputs
	most time.Duration
}

// quarantineAfter returns the number of recoveries at which a run is quarantined.
func (e *env) quarantineAfter() int { return max(e.cfg.Recoveries-2, 1) }

// exemptAfter returns the number of recoveries at which a run is claimed exempt. It returns 0 if no
// run is claimed exempt.
func (e *env) exemptAfter() int {
	if n := e.quarantineAfter(); n < e.cfg.Recoveries {
		return n
	}
	return 0 // With so few recoveries the first death poisons the run, so the cause cannot be determined.
}

// closedTo reports whether the run must not begin work, because it is the turn of another run.
func (r *runs) closedTo(in *inputs) bool {
	now := r.turns.now.Load()
	return now != nil && now != in
}

// lineUp appends a quarantined run to the runs that wait for their turn. most bounds the duration
// of the turn.
func (r *runs) lineUp(in *inputs, most time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.owned[in.id] == in && !slices.ContainsFunc(r.turns.waiting, func(s quarantined) bool { return s.run == in }) {
		r.turns.waiting = append(r.turns.waiting, quarantined{in, most})
	}
	r.nextTurn()
}

// nextTurn prepares the turn of the next quarantined run, unless other runs have to be executed
// first. The caller must hold the lock.
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
	if !s.since.IsZero() && now.Sub(s.since) >= runloop.TurnTime { // other runs have waited long enough
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

// prepareTurn begins the preparation of a turn and makes all other runs give way. The caller must
// hold the lock.
func (r *runs) prepareTurn() {
	s := &r.turns
	next := s.waiting[0]
	s.now.Store(next.run)
	s.number++
	s.alone, s.begun, s.waiting = false, false, slices.Delete(s.waiting, 0, 1)
	for _, in := range r.owned {
		if in != next.run {
			in.post(runloop.Input{Kind: runloop.GiveWay})
		}
	}
	number := s.number
	r.clock.AfterFunc(next.most, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if s.number == number && s.now.Load() != nil && !s.begun {
			r.beginTurn() // even if running steps of other runs have not ended
		}
	})
	r.checkAlone()
}

// openFor permits other runs to execute for d before the next turn. The caller must hold the lock.
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

// quiet continues with quarantined runs before openUntil if no other run is being executed.
func (r *runs) quiet() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := &r.turns; len(s.waiting) > 0 && s.now.Load() == nil && r.occupied() == 0 {
		s.openUntil = time.Time{}
		r.nextTurn()
	}
}

// checkAlone begins the prepared turn once no other run has work in flight and all releases were
// confirmed. The caller must hold the lock.
func (r *runs) checkAlone() {
	if s := &r.turns; s.now.Load() != nil && !s.begun && r.occupied() == 1 && r.releasing == 0 {
		s.alone = true
		r.beginTurn()
	}
}

// beginTurn permits the run whose turn it is to begin its code. The caller must hold the lock.
func (r *runs) beginTurn() {
	r.turns.begun = true
	r.turns.now.Load().post(runloop.Input{Kind: runloop.Due})
}

// turnOf returns the number of the current turn and whether no other run has work in flight. begun
// reports whether the turn belongs to run in and has begun.
func (r *runs) turnOf(in *inputs) (number int, alone, begun bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &r.turns
	return s.number, s.alone, s.now.Load() == in && s.begun
}

// finishTurn ends the turn with the given number. It does nothing if that turn has ended.
func (r *runs) finishTurn(number int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.turns.now.Load() != nil && r.turns.number == number {
		r.turns.now.Store(nil)
		r.nextTurn()
	}
}

// dismiss removes a run that has left from the quarantine. The caller must hold the lock.
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
