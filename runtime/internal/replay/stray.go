package replay

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
)

// StrayError is the error of a durable operation that was called on a goroutine started by the
// code. No replay could repeat when such calls happen, and in which order, so the run is blocked
// before the call has any effect.
type StrayError struct {
	Run      event.RunID
	Branch   string // branch whose context was used
	Position string // file:line of the call; empty if unknown
}

// Error contains the position of the call, and what to use instead.
func (e *StrayError) Error() string {
	at := ""
	if e.Position != "" {
		at = " at " + e.Position
	}
	return fmt.Sprintf("run %s: a durable operation of branch %s was called%s on a goroutine that is not one of the workflow's: "+
		"use workflow.Go instead of go or errgroup; the run is blocked until a worker with fitting code comes, and then goes on by itself",
		e.Run, e.Branch, at)
}

// Code cannot query the identity of a goroutine, but it can query one bit that belongs to the
// goroutine alone, is not inherited, and costs 2 ns: whether a fault at an unexpected address
// panics on it. The bit is set on coroutines, which are the only goroutines that execute the code
// of runs, except for goroutines that iter.Pull makes for that code, which take turns with it. The
// bit is also right in itself on coroutines: such a fault fails the run, like other panics, and not
// the process.

// markCoroutine marks the goroutine as one that executes the code of runs.
func markCoroutine() { debug.SetPanicOnFault(true) }

// onCoroutine reports whether the goroutine executes the code of runs.
func onCoroutine() bool {
	if debug.SetPanicOnFault(true) || pulled() {
		return true
	}
	debug.SetPanicOnFault(false)
	return false
}

// pulled reports whether the goroutine is one of iter.Pull. Such a goroutine runs while the code
// that has called next waits for it, and belongs to that code. onCoroutine calls it once per
// goroutine.
func pulled() bool {
	pcs := make([]uintptr, 64)
	n := runtime.Callers(0, pcs)
	for n == len(pcs) {
		pcs = make([]uintptr, 2*n)
		n = runtime.Callers(0, pcs)
	}
	frames := runtime.CallersFrames(pcs[max(n-8, 0):n]) // a goroutine's first function is last, apart from the runtime's own
	for {
		f, more := frames.Next()
		if strings.HasPrefix(f.Function, "iter.Pull") {
			return true
		}
		if !more {
			return false
		}
	}
}

// stop ends a goroutine that does not belong to the run and has called a durable operation.
// Deferred calls run. The goroutine exits instead of panicking, because its panic could not be
// recovered and would end the process, with all other runs. It changes nothing of the run but
// stray, which is safe for concurrent use. The run detects it at its next operation; the receiver
// of Stray is notified at once.
func (r *Run) stop(branch string) {
	e := &StrayError{Run: r.id, Branch: branch, Position: here()}
	r.stray.CompareAndSwap(nil, e)
	if tell := r.Stray; tell != nil {
		tell(e)
	}
	runtime.Goexit()
}

// strayed ends the work on a run if an operation was called on another goroutine. Events since the
// last commit are dropped.
func (r *Run) strayed() bool {
	if e := r.stray.Load(); e != nil && r.err == nil && !r.ended {
		r.err = e
	}
	return r.err != nil
}
