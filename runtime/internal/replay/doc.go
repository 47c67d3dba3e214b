// Package replay executes the code of one run against its log. It does no I/O, reads no clock and
// starts no goroutine. A driver (the worker) passes events to a [Run] and carries out the requests
// of the code.
//
// The code of a run is a set of branches, each of which is a coroutine. A Run applies one event and
// resumes the branches that the event made runnable, first in first out, until all of them are
// blocked. It collects their requests as new events. Replay and live execution use the same code
// path. While recorded events remain, a requested operation must match the next one. When none
// remain, the operation is new.
//
// There are three kinds of events. Commands come from the code, and a replay compares them: a step
// or wait was created, a value was recorded, the run ended. Outside events make branches runnable:
// a step or wait completed, a message arrived, a cancel was requested. Bookkeeping events change
// only the state: an attempt started or will be retried, or values kept from an older run are
// published again. A bookkeeping event never stands between an outside event and the commands that
// follow from it. So code that requests more operations than the log contains is detected, even if
// an attempt began next.
//
// Code runs only as the consequence of an outside event, at the position of that event in the log.
// Everything that the code observes is a function of the log before that position. So the same log
// always leads to the same execution, including the outcome of races.
//
// Files:
//
//   - run.go: the Run as its driver sees it
//   - apply.go: the path of an event from the driver to the branches that it makes runnable, and of
//     the commands of their code to the log
//   - branch.go: what each operation of the code begins with, and its key; op.go: operations with
//     an outcome, such as steps; wait.go: how a branch blocks until there is an outcome
//   - coroutine.go, list.go: what branches and waits are made of
//   - child.go, topic.go, hook.go, ask.go, select.go: children, messages and other waits; scope.go:
//     what ends them early
//   - record.go, rand.go, stream.go, version.go: values of the code
//   - ending.go, undo.go: how a run ends, and its compensations; deadlock.go: runs that cannot end
//   - control.go: pauses, debug mode, and the part of an older run's log; keep.go: that part
//   - mismatch.go, renamed.go, stray.go, position.go: why and where code does not match its log
package replay
