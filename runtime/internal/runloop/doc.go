// Package runloop decides what a worker does for one run. It executes the code of the run, begins
// the attempts of its steps, and builds its commits.
//
// A [State] is a reducer. [State.React] takes one input, [State.Proceed] does all work that is
// possible after the inputs, and both return actions for the caller to perform in order. A State
// uses no store, clock, lock, goroutine or random number of its own: it reads the answers of a
// [Driver]. With the same inputs, the same answers and code that is deterministic, it returns the
// same actions.
//
// The code of the run is executed inside React and Proceed, on the coroutines of package replay. So
// a State cannot be copied, and a call may take long or never return. The caller must hold no lock,
// and must never call a State from two goroutines at once.
//
// The following invariants hold whatever the inputs:
//
//   - No effect before its cause: Start, Reveal, and the StopAttempt of a canceled step are returned
//     only after the commit that contains their cause was answered as durable. They wait in one
//     queue, ordered by the sequence number of the cause.
//   - At most one commit is in flight. While a commit that gives the run back is in flight, nothing
//     begins.
//   - The events of consecutive commits have consecutive sequence numbers, and each commit contains
//     the ID of the durable commit before it.
//   - Each slot taken from the Driver is returned by one ReturnSlot, or belongs to an attempt that
//     was started and returns it at its end.
//   - Under a claim that is lost nothing is committed or started.
//   - Observers receive each durable event of a claim once, in order, and no other event.
//
// Files:
//
//   - state.go: the state, its parameters, and the Driver
//   - input.go, action.go: what a State takes and returns
//   - react.go: the reaction to each input; proceed.go: the work after the inputs, in order
//   - claim.go: the claim and the end of the durable log; replay.go: how the code gets into memory
//   - attempts.go, outcome.go, hook.go: attempts of steps; inbox.go: received items
//   - commit.go: the next commit, its size, and its effect on the run; consequence.go: what it sends
//   - delay.go, turn.go, report.go, observe.go: delayed releases, quarantine, log lines, and observers
package runloop
