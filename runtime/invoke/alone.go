package invoke

import (
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/flow"
)

// A run is suspect if its last invocations have died without progress, as often as a worker needs to
// quarantine it. It may have ended its process, and with it all runs that the process executed. So a
// process executes a suspect run alone, and a further death is counted for no other run.
//
// A request can wait only for a moment until other invocations have ended, because the platform bounds
// its time. So a suspect run that waits in vain reserves the process. While suspect runs wait, or the
// process is reserved, no other run begins. The dispatcher repeats the request within [failedMost],
// which renews the reservation, and each invocation ends with its budget. So the suspect run is
// executed soon after one budget at the latest, unless other processes get its requests. A reservation
// that is not renewed ends by itself.

const (
	// turnWait is how long a request waits until its run may be executed.
	turnWait = 3 * time.Second
	// reserved is how long a process executes no other runs after it has refused a suspect run.
	reserved = 2 * failedMost
)

// turns admits runs to a process.
type turns struct {
	most int // bound of executes

	mu       sync.Mutex
	executes int           // runs that are executed
	suspect  bool          // whether one of them is suspect, and therefore the only one
	waiting  int           // suspect runs whose requests wait
	until    time.Time     // until when the process is reserved for suspect runs
	changed  chan struct{} // closed at the next change; nil if nothing waits for it
}

// enter admits a run, or returns a *[flow.BusyError]. The caller must call leave after the run was
// executed.
func (t *turns) enter(suspect bool) (leave func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if suspect {
		t.waiting++
		defer func() { t.waiting--; t.change() }()
	}
	over := time.NewTimer(turnWait)
	defer over.Stop()
	for {
		busy := t.busy(suspect)
		if busy == nil {
			break
		}
		if busy == errFull || !t.await(over.C) {
			if suspect {
				t.until = time.Now().Add(reserved)
			}
			return nil, busy
		}
	}
	t.executes++
	if t.suspect = suspect; suspect {
		t.until = time.Time{}
	}
	return t.leave, nil
}

// busy returns nil if a run may begin. The caller must hold the lock.
func (t *turns) busy(suspect bool) error {
	switch {
	case t.suspect:
		return &flow.BusyError{Message: "the process executes a run alone that may have ended processes", Fix: "call again later"}
	case suspect && t.executes > 0:
		return &flow.BusyError{Message: "the run may have ended processes and must be executed alone, but the process executes other runs", Fix: "call again: the process begins no other runs meanwhile"}
	case !suspect && (t.waiting > 0 || time.Now().Before(t.until)):
		return &flow.BusyError{Message: "the process is reserved for a run that may have ended processes", Fix: "call again later"}
	case t.executes >= t.most:
		return errFull
	}
	return nil
}

// errFull is the error of a request that does not wait, because another process may be idle.
var errFull error = &flow.BusyError{Message: "the process executes as many runs as Config.Concurrency permits", Fix: "call again later, permit the platform more instances, or raise Config.Concurrency"}

// await waits for the next change. It returns false if over receives a value before. The caller must
// hold the lock, which is free meanwhile.
func (t *turns) await(over <-chan time.Time) bool {
	if t.changed == nil {
		t.changed = make(chan struct{})
	}
	changed := t.changed
	t.mu.Unlock()
	defer t.mu.Lock()
	select {
	case <-changed:
		return true
	case <-over:
		return false
	}
}

// change wakes the requests that wait. The caller must hold the lock.
func (t *turns) change() {
	if t.changed != nil {
		close(t.changed)
		t.changed = nil
	}
}

func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.executes--
	t.suspect = false
	t.change()
}
