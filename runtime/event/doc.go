// Package event defines the log of a run: event types, IDs, the table of legal transitions, the
// state derived from a log, and the wire format of a commit.
//
// A run is its log. Every commit appends one [Frame], and a frame contains one or more [Event]
// values whose sequence numbers are consecutive from 1. Status, steps, waits and results are
// derived from the log ([LogState]); all other data in a store can be rebuilt from it.
//
// Reading order: [Type] lists what can happen, [Event] is the record of it, [Next] determines which
// event may follow, [LogState] applies that to a log, and [Frame] is the unit that a store keeps.
//
// The package imports no other package of this module; all others build on it.
package event
