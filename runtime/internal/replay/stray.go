package replay

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
)

// StrayError is the error of a durable operation that was called on a goroutine that the code has
// started. A replay could not repeat the times and the order of such calls. So the run is blocked
// before the call has an effect.
type StrayError struct {
	Run      event.RunID
	Branch   string // path of the branch whose context was used
	Position string // file:line of the call; empty if unknown
}

// Error contains the position of the call and describes the alternative.
func (e *StrayError) Error() string {
	at := ""
	if e.Position != "" {
		at = " at " + e.Position
	}
	return fmt.Sprintf("run %s: a durable operation of branch %s was called%s on a goroutine that is not one of the workflow's: "+
		"use workflow.Go instead of go or errgroup; "+untilMatching,
		e.Run, e.Branch, at)
}

// Code cannot query the identity of its goroutine. But it can query one bit that belongs to the
// goroutine, is not inherited, and takes 2 ns to read: whether a fault at an unexpected address
// panics. The bit is set on coroutines. Only coroutines execute the code of runs, except for
// goroutines that iter.Pull creates for that code and that alternate with it. On coroutines the
// value of the bit is also appropriate: such a fault fails the run, like other panics, and does not
// end the process.

// markCoroutine marks the current goroutine as one that executes the code of runs.
func markCoroutine() { debug.SetPanicOnFault(true) }

// onCoroutine reports whether the current goroutine executes the code of runs.
func onCoroutine() bool {
	if debug.SetPanicOnFault(true) || pulled() {
		return true
	}
	debug.SetPanicOnFault(false)
	return false
}

// pulled reports whether iter.Pull has created the current goroutine. Such a goroutine runs while
// the code that has called next waits for it, so it belongs to that code. onCoroutine calls pulled
// once per goroutine.
func pulled() bool {
	pcs := make([]uintptr, 64)
	n := runtime.Callers(0, pcs)
	for n == len(pcs) {
		pcs = make([]uintptr, 2*n)
		n = runtime.Callers(0, pcs)
	}
	frames := runtime.CallersFrames(pcs[max(n-8, 0):n]) // the first function of a goroutine is the last frame, except for frames of the Go runtime
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

// stop ends the current goroutine, which does not belong to the run and has called a durable
// operation. Deferred calls run. The goroutine exits and does not panic, because a panic could not
// be recovered and would end the process with all other runs. stop changes only the field stray of
// the run, which is safe for concurrent use. The run detects the call at its next operation. The
// function Stray is called at once.
func (r *Run) stop(branch string) {
	e := &StrayError{Run: r.id, Branch: branch, Position: here()}
	r.stray.CompareAndSwap(nil, e)
	if tell := r.Stray; tell != nil {
		tell(e)
	}
	runtime.Goexit()
}

// strayed reports whether the run cannot continue because an operation was called on another
// goroutine. It drops the events since the last commit.
func (r *Run) strayed() bool {
	if e := r.stray.Load(); e != nil && r.err == nil && !r.ended {
		r.err = e
	}
	return r.err != nil
}
