package replay

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
)

// StrayError says that a durable operation was called on a goroutine that the code has
// started itself. When that happens, and in which order, is nobody's to repeat: the run
// is blocked before anything comes of the call.
type StrayError struct {
	Run      event.RunID
	Branch   string // whose context was used
	Position string // file:line of the call; empty if it is not known
}

// Error says where the call is, and what to use instead.
func (e *StrayError) Error() string {
	at := ""
	if e.Position != "" {
		at = " at " + e.Position
	}
	return fmt.Sprintf("run %s: a durable operation of branch %s was called%s on a goroutine that is not one of the workflow's: "+
		"use workflow.Go instead of go or errgroup; the run is blocked until a worker with fitting code comes, and then goes on by itself",
		e.Run, e.Branch, at)
}

// A goroutine has no name that code may ask for, but one bit that belongs to it alone,
// that it does not pass on to those it starts, and that costs 2 ns to ask: whether a
// fault at an unexpected address is a panic on it. It is set on coroutines, which are
// the only goroutines on which the code of runs is executed (but for those of its own
// that iter.Pull makes, which take turns with it), and there it is right in
// itself: such a fault fails the run, like other panics, and not the process.

// markCoroutine marks the goroutine as one on which code of runs is executed.
func markCoroutine() { debug.SetPanicOnFault(true) }

// onCoroutine reports whether the goroutine is one on which code of runs is executed.
func onCoroutine() bool {
	if debug.SetPanicOnFault(true) || pulled() {
		return true
	}
	debug.SetPanicOnFault(false)
	return false
}

// pulled reports whether the goroutine is one of iter.Pull: then it runs while the code
// that has called next waits for it, and belongs to that. It is asked once for each.
func pulled() bool {
	pcs := make([]uintptr, 64)
	n := runtime.Callers(0, pcs)
	for n == len(pcs) {
		pcs = make([]uintptr, 2*n)
		n = runtime.Callers(0, pcs)
	}
	frames := runtime.CallersFrames(pcs[max(n-8, 0):n]) // the function that a goroutine begins with is the last but those of the runtime
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

// stop ends a goroutine that is not the run's own, and that has called a durable
// operation; deferred calls are made. It is ended, and does not panic: nobody could
// recover that, and it would end the process, with the runs of everybody else. Nothing
// of the run is touched but what is made for that. The run learns of it at its next
// operation, or from who is told by Stray.
func (r *Run) stop(branch string) {
	e := &StrayError{Run: r.id, Branch: branch, Position: here()}
	r.stray.CompareAndSwap(nil, e)
	if tell := r.Stray; tell != nil {
		tell(e)
	}
	runtime.Goexit()
}

// strayed ends the work on a run of which an operation was called on another goroutine.
// What has happened since the last commit is not kept.
func (r *Run) strayed() bool {
	if e := r.stray.Load(); e != nil && r.err == nil && !r.ended {
		r.err = e
	}
	return r.err != nil
}
