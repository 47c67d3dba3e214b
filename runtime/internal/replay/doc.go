// Package replay executes the code of one run against its log. It is pure: no I/O, no clock, no
// goroutine of its own. A driver (the worker) feeds it events and carries out what the code
// requests.
//
// The code of a run is a set of branches, each a coroutine. [Run] applies one event, resumes the
// branches that it made runnable, first in first out, until all of them are blocked, and collects
// their requests as new events. Replay and live execution are one path: while the feed holds
// recorded events, an operation must match the next one; when it is exhausted, an operation is new.
//
// Events are of three kinds. Commands come from the code and are compared: a step or wait was
// created, a value recorded, the run ended. Outside events make branches runnable: a step or wait
// completed, a message arrived, a cancel was requested. Bookkeeping events (an attempt started, or
// will be retried, or values kept from an older run are published again) change only the state.
// They never stand between an outside event and the commands that follow from it, so code that
// requests more than the log holds is detected even where an attempt began next.
//
// Code runs only as the consequence of an outside event, at that event's place in the log.
// Everything that it sees is a function of the log before that place. So the same log always leads
// down the same path, races included.
package replay
