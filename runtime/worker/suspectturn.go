package worker

import (
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// lastTurn reports whether the run is poisoned if its worker dies once more.
func (t *runLoop) lastTurn() bool { return t.recoveries+1 >= t.cfg.Recoveries }

func (t *runLoop) turnTime() time.Duration {
	if t.lastTurn() {
		return max(t.cfg.RunBudget, turnTime)
	}
	return turnTime
}

// takeTurn begins with the code of a suspect, once the store knows whether that counts.
func (t *runLoop) takeTurn() {
	number, alone, mine := t.runs.turnOf(&t.inputs)
	if !mine || t.inflight != nil || !t.alive() {
		return
	}
	t.turn = number
	counts := alone || !t.lastTurn()
	if counts && !t.blamed {
		c := t.newCommit(0)
		c.req = store.Commit{Run: t.id, WorkflowID: t.workflowID, Fence: t.fence, Prev: t.last, Exempt: store.ExemptOff}
		t.send(c)
		return
	}
	most := t.turnTime()
	t.clock.AfterFunc(most, func() { t.post(input{kind: inputTurnOver, turn: number}) })
	t.clock.AfterFunc(most+turnTime, func() { t.runs.finishTurn(number) }) // its code does not even let it hear of that
	t.read()
}

// onTurnOver lets others begin, although the run has made no progress. In its last turn it
// is made exempt again before that, which takes a commit; if its code keeps even
// that from being made, others go on all the same.
func (t *runLoop) onTurnOver(number int) {
	switch {
	case t.turn != number || t.state == stateAway:
	case t.blamed && t.lastTurn():
		t.exempt = store.ExemptOn
	default:
		t.endTurn()
	}
}

// onExempt goes on when the store knows what becomes of a death.
func (t *runLoop) onExempt(e store.Exempt) {
	switch e {
	case store.ExemptOff:
		t.blamed = true
	case store.ExemptOn:
		t.blamed, t.exempt = false, store.ExemptUnchanged
		t.endTurn()
	}
}

// endTurn is called when the turn of a suspect is over.
func (t *runLoop) endTurn() {
	number := t.turn
	t.turn = 0
	if number == 0 {
		return
	}
	t.runs.finishTurn(number)
}

// acquit notes that what a suspect was suspected of is forgotten: it has made progress.
func (t *runLoop) acquit() {
	t.recoveries, t.exempt = 0, store.ExemptUnchanged
	t.endTurn()
}
