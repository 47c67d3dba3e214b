// Package replay executes the code of one run against its log. It is pure: no
// I/O, no clock, no goroutine of its own. A driver (the worker) feeds it events
// and carries out what it asks for.
//
// The code of a run is a set of branches, each a coroutine. [Run] applies one
// event, resumes the branches that it made runnable, first in first out, until
// all of them are blocked, and collects what they asked for as new events.
// Replay and live execution are one path: while the feed holds recorded events,
// an operation must match the next one; when it is exhausted, an operation is
// new.
//
// Events are of three sorts. Commands come from the code and are compared:
// a step or wait was created, a value recorded, the run ended. Outside events
// make branches runnable: a step or wait completed, a message came, somebody
// asked to cancel. Bookkeeping (an attempt started, or will be repeated, or what
// was kept of an older run is published again) changes the state and nothing else. It never stands between an outside event and the
// commands that follow from it: code that asks for more than the log holds is
// noticed also where an attempt began next.
//
// Code runs only as the consequence of an outside event, at that event's place
// in the log. Everything it sees is a function of the log before that place:
// which is why the same log always leads down the same path, races included.
package replay
