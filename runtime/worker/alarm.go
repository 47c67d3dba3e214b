package worker

import "time"

// alarm wakes a run loop when something in the run becomes due.
type alarm struct {
	*env
	in   *inputs // of the run loop
	at   time.Time
	stop func() bool
}

// overdue is how often a run loop retries due work that it could not do.
const overdue = 20 * time.Millisecond

// lookAgain bounds how long a run loop relies on an alarm before it rechecks, because the clock may
// be set or the machine may sleep.
const lookAgain = time.Minute

// set schedules a wake of the run loop at due, while other work keeps the loop busy. The zero time
// cancels the wake. The run loop last checked for due work at looked.
func (a *alarm) set(due, looked time.Time) {
	if due.Equal(a.at) {
		return
	}
	a.clear()
	if due.IsZero() {
		return
	}
	// Work that is already due waits for something else, such as a slot.
	wait := min(max(due.Sub(a.clock.Now()), overdue), a.lookAgain)
	a.at = due
	a.stop = a.clock.AfterFunc(wait, func() { a.in.post(input{kind: inputTick}) })
	if looked.Before(due) && !a.clock.Now().Before(due) {
		a.in.post(input{kind: inputTick}) // it has become due since the check at looked
	}
}

func (a *alarm) clear() {
	if a.stop != nil {
		a.stop()
		a.stop = nil
	}
	a.at = time.Time{}
}
