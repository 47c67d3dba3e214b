package worker

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// TestTimeouts_OfReusedTimersEndTheirOwnAttempts proves that a reused timer times out the attempt for
// which it was started last, after the timeout of that attempt, and that a timer that has fired is not
// reused.
func TestTimeouts_OfReusedTimersEndTheirOwnAttempts(t *testing.T) {
	ended := make(chan *attempt, 1)
	timers := newTimeouts(store.SystemClock)
	attemptOf := func(timeout time.Duration) *attempt {
		a := &attempt{timeout: timeout, steps: &steps{env: &env{clock: store.SystemClock, base: t.Context()}}}
		a.steps.cfg.Grace = time.Hour
		a.ctx, a.cancel = t.Context(), func(error) { ended <- a }
		return a
	}
	for range 100 {
		timers.stop(timers.start(attemptOf(time.Hour)))
	}
	late := attemptOf(time.Millisecond)
	fired := timers.start(late)
	if got := <-ended; got != late {
		t.Fatal("the timer ended another attempt")
	}
	timers.stop(fired)
	for range 100 {
		again := timers.start(attemptOf(time.Hour))
		if again == fired {
			t.Fatal("a timer that has fired was reused")
		}
		defer timers.stop(again)
	}
}

// TestAllocs_OfTimeouts proves that a timer of a short attempt takes no memory.
func TestAllocs_OfTimeouts(t *testing.T) {
	timers := newTimeouts(store.SystemClock)
	a := &attempt{timeout: time.Hour}
	if got := testing.AllocsPerRun(1000, func() { timers.stop(timers.start(a)) }); got >= 1 {
		t.Errorf("a timer takes %v allocations, want 0", got)
	}
}
