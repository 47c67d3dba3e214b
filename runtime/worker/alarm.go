package worker

import "time"

// alarm wakes a run loop when something is due.
type alarm struct {
	*env
	in   *inputs // of the run loop
	at   time.Time
	stop func() bool
}

// overdue is how often a run loop looks again at what was due and could not be done.
const overdue = 20 * time.Millisecond

// lookAgain bounds how long a run loop trusts an alarm: the clock may be set, or the
// machine may sleep.
const lookAgain = time.Minute

// set wakes the run loop when something in it is due while it is kept busy by something
// else; the zero time: never. The run loop has last looked at what is due at looked.
func (a *alarm) set(due, looked time.Time) {
	if due.Equal(a.at) {
		return
	}
	a.clear()
	if due.IsZero() {
		return
	}
	// What is due already waits for something else, such as a slot.
	wait := min(max(due.Sub(a.clock.Now()), overdue), a.lookAgain)
	a.at = due
	a.stop = a.clock.AfterFunc(wait, func() { a.in.post(input{kind: inputTick}) })
	if looked.Before(due) && !a.clock.Now().Before(due) {
		a.in.post(input{kind: inputTick}) // it has become due in between
	}
}

func (a *alarm) clear() {
	if a.stop != nil {
		a.stop()
		a.stop = nil
	}
	a.at = time.Time{}
}
