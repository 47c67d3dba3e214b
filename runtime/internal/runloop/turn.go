package runloop

import (
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// TurnTime bounds the turn of a quarantined run. The last turn before the run is poisoned is as long
// as RunBudget. Quarantine is described in package worker.
const TurnTime = 5 * time.Second

// turn is the quarantine state of a run that may have caused deaths of workers.
type turn struct {
	number int          // number of the run's turn; 0 if the run has none
	blamed bool         // whether the exemption has ended
	exempt store.Exempt // change of the exemption by the next commit
}

// lastTurn reports whether the next counted death poisons the run.
func (s *State) lastTurn() bool { return s.recoveries+1 >= s.Recoveries }

func (s *State) turnTime() time.Duration {
	if s.lastTurn() {
		return max(s.RunBudget, TurnTime)
	}
	return TurnTime
}

// takeTurn reports whether it is the run's turn, and whether its code may begin. If a death in this
// turn counts, the code may begin only after the store has recorded the end of the exemption.
func (s *State) takeTurn() (mine, begins bool) {
	number, alone, mine := s.driver.Turn()
	if !mine {
		return false, false
	}
	s.turn.number = number
	counts := alone || !s.lastTurn()
	if counts && !s.turn.blamed {
		return true, false
	}
	s.act(Action{Op: BeginTurn, Turn: number, Most: s.turnTime()})
	return true, true
}

// turnOver ends the turn of a run that has made no progress, so that other runs can begin. In the last
// turn the run must become exempt again first, which takes a commit. If the code of the run
// prevents the commit, a timer ends the turn.
func (s *State) turnOver(number int) {
	switch {
	case s.turn.number != number:
	case s.turn.blamed && s.lastTurn():
		s.turn.exempt = store.ExemptOn
	default:
		s.endTurn()
	}
}

// onExempt continues after the store has recorded the change e of the exemption.
func (s *State) onExempt(e store.Exempt) {
	switch e {
	case store.ExemptOff:
		s.turn.blamed = true
	case store.ExemptOn:
		s.turn.blamed, s.turn.exempt = false, store.ExemptUnchanged
		s.endTurn()
	}
}

func (s *State) endTurn() {
	number := s.turn.number
	s.turn.number = 0
	if number != 0 {
		s.act(Action{Op: EndTurn, Turn: number})
	}
}

// acquit ends the quarantine of a run that has made progress.
func (s *State) acquit() {
	s.recoveries, s.turn.exempt = 0, store.ExemptUnchanged
	s.endTurn()
}
