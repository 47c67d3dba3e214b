package invoke

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flow"
)

// enters fails the test unless a run is admitted, or refused as busy, after the given time.
func enters(t *testing.T, turns *turns, suspect, admitted bool, after time.Duration) (leave func()) {
	t.Helper()
	began := time.Now()
	leave, err := turns.enter(suspect)
	if _, busy := errors.AsType[*flow.BusyError](err); (err == nil) != admitted || busy == admitted {
		t.Errorf("enter(%t) = %v, want admitted %t", suspect, err, admitted)
	}
	if took := time.Since(began); took != after {
		t.Errorf("enter(%t) took %v, want %v", suspect, took, after)
	}
	return leave
}

// TestOPS7_ASuspectRunIsExecutedAlone proves that a run that may have ended its process begins when no
// other run is executed, that no other run begins meanwhile, and that a request waits for 3 s at most.
func TestOPS7_ASuspectRunIsExecutedAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{most: 2}
		first := enters(t, turns, false, true, 0)
		enters(t, turns, true, false, turnWait)  // another run is executed
		enters(t, turns, false, false, turnWait) // the process is reserved
		time.AfterFunc(2*time.Second, first)
		suspect := enters(t, turns, true, true, 2*time.Second)
		enters(t, turns, false, false, turnWait)
		enters(t, turns, true, false, turnWait) // another suspect run
		time.AfterFunc(time.Second, suspect)
		enters(t, turns, false, false, turnWait) // reserved for the other one
		other := enters(t, turns, true, true, 0)
		time.AfterFunc(time.Second, other)
		leave := enters(t, turns, false, true, time.Second)
		second := enters(t, turns, false, true, 0)
		enters(t, turns, false, false, 0) // the process is full
		second()
		enters(t, turns, true, false, turnWait)
		time.Sleep(reserved) // the suspect run has gone to another process
		enters(t, turns, false, true, 0)()
		leave()
	})
}

// TestOPS7_SuspectRunsGoFirst proves that runs which are not suspect do not begin while a suspect run
// waits for the end of others.
func TestOPS7_SuspectRunsGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &turns{most: 64}
		leave := enters(t, turns, false, true, 0)
		waits := make(chan struct{})
		go func() {
			defer close(waits)
			enters(t, turns, true, true, time.Second)()
		}()
		synctest.Wait()
		time.AfterFunc(time.Second, leave)
		enters(t, turns, false, true, time.Second)()
		<-waits
	})
}
