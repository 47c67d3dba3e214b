// Package event is the vocabulary of a run's log: event types, ids, the table
// of legal transitions, the state that a log leads to, and the wire
// format of a commit.
//
// A run is its log. Every commit appends one [Frame], and a frame holds one or
// more [Event] values whose sequence numbers are dense from 1. Status, steps,
// waits and results follow from the log ([LogState]); whatever a store keeps
// beside it can be rebuilt from it.
//
// Reading order: [Type] lists what can happen, [Event] is the record of it,
// [Next] decides what may follow what, [LogState] applies that to a log, and
// [Frame] is the unit that a store keeps.
//
// The package depends on nothing of this module: everything else is built on
// top of it.
package event
