package worker

import (
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// timeouts sets the timers that end attempts. Almost every attempt ends before its timeout, so the
// timers are reused if the clock has timers of package time. Otherwise, for example in virtual time,
// each attempt has a new timer.
type timeouts struct {
	clock  store.Clock
	timers timerClock // nil if the clock has no timers of package time
	idle   sync.Pool  // of *timeout
}

// timerClock is a clock whose AfterFunc is that of package time.
type timerClock interface {
	Timer(d time.Duration, f func()) *time.Timer
}

// timeout is a timer that ends an attempt.
type timeout struct {
	timer *time.Timer // nil if the clock has no timers of package time
	clear func() bool // stops the timer of another clock
	of    *attempt    // set before the timer is started; not changed while it may run
}

func newTimeouts(clock store.Clock) *timeouts {
	timers, _ := clock.(timerClock)
	return &timeouts{clock: clock, timers: timers}
}

func (t *timeouts) start(a *attempt) *timeout {
	after := a.timeout
	if t.timers == nil {
		return &timeout{clear: t.clock.AfterFunc(after, a.timeUp)}
	}
	if l, ok := t.idle.Get().(*timeout); ok {
		l.of = a
		l.timer.Reset(after)
		return l
	}
	l := &timeout{of: a}
	l.timer = t.timers.Timer(after, func() { l.of.timeUp() })
	return l
}

// stop stops a timer. It is reused only if its function has not been called and will not be.
func (t *timeouts) stop(l *timeout) {
	switch {
	case l.timer == nil:
		l.clear()
	case l.timer.Stop():
		l.of = nil
		t.idle.Put(l)
	}
}
