// Package event defines the log of a run: event types, IDs, the table of legal transitions, the
// state derived from a log, and the wire format of a commit.
//
// A run is its log. Every commit appends one [Frame], which contains one or more [Event] values.
// The sequence numbers of a log's events are consecutive from 1. Status, steps, waits and results
// are derived from the log ([LogState]). All other data in a store can be rebuilt from logs.
//
// Reading order: [Type] lists the kinds of events, [Event] is the record of an event, [Next]
// determines which event may follow, [LogState] derives the state of a run, and [Frame] is the unit
// that a store keeps.
//
// The package imports no other package of this module. All other packages build on it.
package event
